# MiniStack is the AWS emulator of the tests: one Python process, no account, no
# Docker. It lives in a virtual environment, .venv, at the root.

PYTHON ?= python3
VENV := .venv

# $(WITH_MINISTACK) COMMAND runs a command with one MiniStack for all of it, and
# ends it with the command. Tests find it in LAMBAE_TEST_DYNAMODB.
WITH_MINISTACK := go run ./localstack/withministack

.PHONY: ministack-install ministack

## ministack-install: install the AWS emulator of the tests into .venv
ministack-install: $(VENV)/.installed

# Made last, so that an installation that broke off is begun again.
$(VENV)/.installed: localstack/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

## ministack: run the AWS emulator until interrupted
ministack: ministack-install
	$(WITH_MINISTACK)
