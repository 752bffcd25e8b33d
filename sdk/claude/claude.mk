# The judges of sdk/claude: the claude binary and the JavaScript SDK, from npm,
# in an ignored folder, and DynamoDB's emulator. Everything else runs offline.

CLAUDE_PACKAGES ?= $(CURDIR)/.build/claude

.PHONY: test-claude bench-claude

## test-claude: test sdk/claude against the real claude binary and the JavaScript SDK
test-claude: $(CLAUDE_PACKAGES)/.installed ministack-install
	CLAUDE_PACKAGES=$(CLAUDE_PACKAGES) go test -tags claude -timeout 10m ./sdk/claude/conformance

## bench-claude: the benchmarks of sdk/claude, with a warm against a cold start
bench-claude: $(CLAUDE_PACKAGES)/.installed
	go test -run xxx -bench . -benchmem ./sdk/claude
	CLAUDE_PACKAGES=$(CLAUDE_PACKAGES) go test -tags claude -run xxx -bench . -benchtime 5x ./sdk/claude/conformance

# Made last, so that an installation that broke off is begun again.
$(CLAUDE_PACKAGES)/.installed: sdk/claude/conformance/package.json
	@mkdir -p $(CLAUDE_PACKAGES)
	@cp $< $(CLAUDE_PACKAGES)/package.json
	cd $(CLAUDE_PACKAGES) && npm install --no-audit --no-fund --loglevel=error
	@touch $@
