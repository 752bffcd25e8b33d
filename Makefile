# Two targets do all the set-up: `make run` needs Go alone, `make test` installs
# what else the tests want into ignored folders.

BIN := bin/lambae
GO_PACKAGES := ./...

.DEFAULT_GOAL := help

include localstack/ministack.mk
-include infra/infra.mk
-include sdk/claude/claude.mk

.PHONY: help run build test check unit test-crash test-sandbox-crash fuzz bench

## help: this list
help:
	@sed -n 's/^## /  make /p' $(MAKEFILE_LIST)

## run: start a whole server on this machine
run: build
	@$(BIN) dev

## build: build the command line into bin/
build:
	@[ -x $(BIN) ] || echo "building; the first time takes a minute"
	@go build -o $(BIN) ./cmd/lambae

## test: everything that must hold before a change lands
test: check unit

## check: format, vet and staticcheck
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet $(GO_PACKAGES)
	go tool staticcheck $(GO_PACKAGES)

## unit: all Go tests, with the race detector and an AWS emulator
unit: ministack-install
	$(WITH_MINISTACK) go test -race -timeout 30m $(GO_PACKAGES)

## test-sandbox-crash: kill sandboxd, the server and what is between them 100 times
test-sandbox-crash:
	LAMBAE_SANDBOX_KILLS=100 go test -race -count 1 -timeout 30m -run EveryCommandEnds -v ./internal/dev

## test-crash: kill the server 200 times in the middle of turns
test-crash:
	LAMBAE_CRASH_KILLS=200 go test -race -count 1 -timeout 30m -run Killed -v ./internal/dev

## fuzz: every fuzz target for FUZZTIME (60s)
FUZZTIME ?= 60s
fuzz:
	@set -e; for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' internal sdk | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$pkg/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$pkg $$target"; go test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$pkg; \
		done; \
	done

## bench: the benchmarks
bench:
	go test -run xxx -bench . -benchmem $(GO_PACKAGES)
