# AWS: the CDK app in infra/, deployed for real or into an emulator on this
# machine. It needs Node 22 or newer beside Go; the CDK's command line is installed
# into .build. docs/aws.md tells the rest.

CDK_VERSION := 2.1148.1
CDK_DIR := $(CURDIR)/.build/cdk-$(CDK_VERSION)
CDK := cd infra && CDK_DISABLE_VERSION_CHECK=1 $(CDK_DIR)/node_modules/.bin/cdk

# Settings of a deployment, as in infra/settings.go.
STAGE ?= dev
SETTINGS = -c lambae:stage=$(STAGE) \
	$(if $(CONFIG),-c lambae:config=$(abspath $(CONFIG))) \
	$(if $(MEMORY),-c lambae:memory=$(MEMORY)) \
	$(if $(ARCHITECTURE),-c lambae:architecture=$(ARCHITECTURE)) \
	$(if $(LOG_RETENTION),-c lambae:log-retention=$(LOG_RETENTION)) \
	$(if $(LOG_LEVEL),-c lambae:log-level=$(LOG_LEVEL)) \
	$(if $(REMOVAL),-c lambae:removal=$(REMOVAL)) \
	$(if $(DELETION_PROTECTION),-c lambae:deletion-protection=$(DELETION_PROTECTION)) \
	$(if $(ALARM_TOPIC),-c lambae:alarm-topic=$(ALARM_TOPIC)) \
	$(if $(SECRET_KEYS),-c lambae:secret-keys=$(SECRET_KEYS)) \
	$(if $(SANDBOX_IMAGES),-c lambae:sandbox-images=$(SANDBOX_IMAGES)) \
	$(if $(SANDBOX_CPU),-c lambae:sandbox-cpu=$(SANDBOX_CPU)) \
	$(if $(SANDBOX_MEMORY),-c lambae:sandbox-memory=$(SANDBOX_MEMORY)) \
	$(if $(SANDBOX_SPOT),-c lambae:sandbox-spot=$(SANDBOX_SPOT)) \
	$(if $(SANDBOX_VPC),-c lambae:sandbox-vpc=$(SANDBOX_VPC)) \
	$(if $(SANDBOX_SUBNETS),-c lambae:sandbox-subnets=$(SANDBOX_SUBNETS))

# The emulator is another account with another set of credentials: nothing of the
# caller's own reaches it.
LOCAL_PORT ?= 4566
LOCAL_ENDPOINT := http://127.0.0.1:$(LOCAL_PORT)
LOCAL_DIR := $(CURDIR)/.build/local-$(LOCAL_PORT)
LOCAL_AWS := env -u AWS_PROFILE -u AWS_SESSION_TOKEN AWS_ENDPOINT_URL=$(LOCAL_ENDPOINT) \
	AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 \
	CDK_DISABLE_VERSION_CHECK=1 JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1
LOCAL_CDK = cd infra && $(LOCAL_AWS) $(CDK_DIR)/node_modules/.bin/cdk
LOCAL_SETTINGS = -c lambae:stage=local -c lambae:removal=destroy -c lambae:emulator=$(LOCAL_ENDPOINT) -c lambae:log-level=debug \
	-c lambae:architecture=$(if $(filter arm64,$(shell go env GOARCH)),arm64,x86_64) \
	-c lambae:config=$(CURDIR)/localstack/bae-config.toml \
	-c lambae:sandbox-images=demo -c lambae:sandbox-vpc=vpc-00000000000000000 -c lambae:sandbox-subnets=subnet-00000000000000000
# AUTH=true has it enforce every policy of the stack. It must know its own address,
# which it gives to functions; the rest keeps it away from Docker, from other ports
# and from earlier state.
MINISTACK = cd $(LOCAL_DIR) && env AUTH=true GATEWAY_PORT=$(LOCAL_PORT) BIND_HOST=127.0.0.1 AWS_ENDPOINT_URL=$(LOCAL_ENDPOINT) \
	TMPDIR=$(LOCAL_DIR) STATE_DIR=$(LOCAL_DIR)/state S3_DATA_DIR=$(LOCAL_DIR)/s3 PERSIST_STATE=0 SFTP_ENABLED=0 IOT_MTLS_ENABLED=0 \
	DOCKER_HOST=unix://$(LOCAL_DIR)/no-docker.sock LOG_LEVEL=INFO $(CURDIR)/$(VENV)/bin/ministack

.PHONY: cdk-install synth bootstrap deploy destroy outputs infra-check infra-test \
	local-up local-deploy local-test local-destroy local-down bench-cold invoke

## cdk-install: install the CDK's command line into .build
cdk-install: $(CDK_DIR)/.installed

$(CDK_DIR)/.installed:
	npm install --silent --no-fund --no-audit --prefix $(CDK_DIR) aws-cdk@$(CDK_VERSION)
	@touch $@

## synth: write the CloudFormation template to infra/cdk.out; needs no account
synth: cdk-install
	$(CDK) synth --quiet $(SETTINGS)

## bootstrap: prepare an account and region for the CDK, once
bootstrap: cdk-install
	$(CDK) bootstrap $(SETTINGS)

## deploy: deploy STAGE (dev) to the AWS account of the caller's credentials
deploy: cdk-install
	$(CDK) deploy $(SETTINGS)

## destroy: remove STAGE; its table stays, unless REMOVAL=destroy was deployed
destroy: cdk-install
	$(CDK) destroy $(SETTINGS)

## outputs: print the addresses of STAGE
outputs:
	@go run ./internal/awsstack/outputs -stage $(STAGE)

## infra-check: format, vet and staticcheck of the CDK app
infra-check:
	@unformatted=$$(gofmt -l infra); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	cd infra && go vet ./... && go tool staticcheck ./...

## infra-test: the template against its golden file, policies, cdk-nag
infra-test: infra-check
	cd infra && JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 go test ./...

## local-up: start an AWS emulator in the background, and what runs its Fargate tasks
local-up: ministack-install
	@mkdir -p $(LOCAL_DIR)
	@$(MINISTACK) --detach
	@for i in $$(seq 300); do curl -sf $(LOCAL_ENDPOINT)/_ministack/health >/dev/null && exit 0; sleep 0.2; done; \
		echo "the emulator does not answer on $(LOCAL_ENDPOINT); see $(LOCAL_DIR)/ministack-$(LOCAL_PORT).log"; exit 1
	@go build -o $(LOCAL_DIR)/fargate ./localstack/fargate
	@$(LOCAL_AWS) $(LOCAL_DIR)/fargate $(LOCAL_DIR)/tasks >$(LOCAL_DIR)/fargate.log 2>&1 &

## local-deploy: deploy the stack into the emulator
local-deploy: cdk-install
	$(LOCAL_CDK) bootstrap aws://000000000000/us-east-1 $(LOCAL_SETTINGS)
	$(LOCAL_CDK) deploy --require-approval never $(LOCAL_SETTINGS)

## local-test: test the stack in the emulator from outside, then destroy it
local-test: cdk-install
	$(LOCAL_AWS) LAMBAE_E2E_STAGE=local go test -count 1 -timeout 10m -skip TestDestroy ./test/e2e
	$(MAKE) local-destroy
	$(LOCAL_AWS) LAMBAE_E2E_STAGE=local go test -count 1 -run TestDestroy ./test/e2e

## local-destroy: remove the stack from the emulator
local-destroy: cdk-install
	$(LOCAL_CDK) destroy --force $(LOCAL_SETTINGS)

## local-down: stop the emulator; what it had is gone
# It forgets instances of functions that are deleted, so they are ended here, as
# the tasks are.
local-down:
	@if [ -d $(LOCAL_DIR) ]; then $(MINISTACK) --stop; pkill -f '^$(LOCAL_DIR)/' || true; rm -rf $(LOCAL_DIR); fi

## bench-cold: size of each function, and the time from its start to its first request for an event
bench-cold:
	@go run ./functions/internal/benchcold client admin stream websocket tasks

## invoke: run a function with EVENT (events/healthz.json) on this machine; SET="client_key=…" fills placeholders
FUNCTION ?= client
EVENT ?= events/healthz.json
invoke:
	@go build -tags lambda.norpc -o .build/invoke/$(FUNCTION) ./functions/$(FUNCTION)
	@AWS_REGION=$${AWS_REGION:-us-east-1} BAE_STORE=$${BAE_STORE:-dynamodb:lambae} BAE_CONFIG=$${BAE_CONFIG:-infra/bae-config.toml} \
		go run ./internal/lambdahttp/runtimetest/invoke -i $(addprefix -set ,$(SET)) .build/invoke/$(FUNCTION) $(EVENT)
