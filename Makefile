# Everything that people and CI do with this repository. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

GO ?= go
PYTHON ?= python3
MVN ?= mvn

# Arguments for `make run` and `make bench`.
ARGS ?=
# The log of `make bench`: empty for the embedded one, or kafka, rocketmq4 or rocketmq5.
BACKEND ?=
# How long `make fuzz` stays on each target.
FUZZTIME ?= 30s

GEN_VENV := .cache/gen/venv
BUF := $(GEN_VENV)/bin/buf
GOLANGCI := bin/golangci-lint
CLIENT_VENV := .cache/python-client

# What wire changes are compared with: the last release, before the first one
# the main branch, and where a clone has none the commit itself.
BREAKING_AGAINST ?= $(shell \
	if tag=$$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); then echo "tag=$$tag"; \
	elif git rev-parse --quiet --verify main >/dev/null; then echo branch=main; \
	else echo "ref=$$(git rev-parse HEAD)"; fi)

# need: $(call need,PROGRAM,WHAT TO INSTALL) fails unless PROGRAM is there.
need = @command -v $(1) >/dev/null || { echo "make $@: $(1) is missing: install $(2)" >&2; exit 1; }
need-go = $(call need,$(GO),Go 1.26 or newer)
need-python = $(call need,$(PYTHON),Python 3.10 or newer with venv (apt-get install python3-venv))
need-java = $(call need,javac,a JDK of version 17 or newer (apt-get install openjdk-17-jdk-headless))
need-maven = $(call need,$(MVN),Maven 3.8 or newer (apt-get install maven))
need-race = @[[ $$($(GO) env CGO_ENABLED) == 1 ]] || \
	{ echo "make $@: the race detector needs a C compiler: install gcc (apt-get install gcc libc6-dev)" >&2; exit 1; }

##@ Run

.PHONY: run
run: ## Start a server from the source; ARGS="--data /tmp/d" adds flags
	$(need-go)
	$(GO) run ./cmd/ackmesh serve $(ARGS)

.PHONY: build
build: ## Build bin/ackmesh
	$(need-go)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ackmesh ./cmd/ackmesh

.PHONY: bench
bench: ## Measure, beside NATS JetStream; BACKEND=kafka: on a real broker; ARGS="-quick" is short, ARGS="-help" lists what
	$(need-go)
	$(if $(BACKEND),$(need-java))
	$(if $(BACKEND),$(need-maven))
	$(GO) run ./bench $(if $(BACKEND),-backend $(BACKEND)) $(ARGS)

##@ Test

.PHONY: test
test: ## The fast tests, with the race detector
	$(need-go)
	$(need-race)
	$(GO) test -race -timeout 10m ./...

.PHONY: test-long test-crash
test-long: ## Crash, power-loss and full-disk tests
	$(need-go)
	$(need-race)
	$(GO) test -race -count=1 -p 1 -timeout 30m -tags long ./test/...
test-crash: test-long ## The same as test-long

.PHONY: test-brokers
test-brokers: ## Tests against real Kafka and RocketMQ, which they install and start
	$(need-go)
	$(need-race)
	$(need-java)
	$(need-maven)
	$(GO) test -race -count=1 -parallel 16 -timeout 40m -tags brokers ./test/brokers/...

# Runs a command beside a server of its own, for the scenarios of conformance/.
BESIDE := $(GO) run ./conformance/serve --

.PHONY: test-clients test-conformance test-java test-python
test-clients: test-conformance test-java test-python ## The scenarios of conformance/ in Go, Java and Python; the Java and the Python client

test-conformance: ## The scenarios of conformance/ in Go
	$(need-go)
	$(need-race)
	$(BESIDE) $(GO) test -race -count=1 -timeout 5m -tags conformance ./conformance/go

test-java: ## Compile and test the Java client, warnings are errors
	$(need-go)
	$(need-race)
	$(need-java)
	$(need-maven)
	$(BESIDE) $(MVN) -B -ntp -Dstyle.color=never -f clients/java/pom.xml verify

test-python: $(CLIENT_VENV)/.installed ## Test and type-check the Python client
	$(need-go)
	$(need-race)
	$(BESIDE) env -C clients/python $(CURDIR)/$(CLIENT_VENV)/bin/pytest
	cd clients/python && ../../$(CLIENT_VENV)/bin/mypy

$(CLIENT_VENV)/.installed: clients/python/pyproject.toml clients/python/hatch_build.py
	$(need-python)
	$(PYTHON) -m venv --clear $(CLIENT_VENV)
	$(CLIENT_VENV)/bin/pip install --quiet --disable-pip-version-check --editable 'clients/python[dev]'
	@touch $@

# The broker suite takes part as soon as there is one.
SUITES := test test-long test-clients $(if $(wildcard test/brokers/*_test.go),test-brokers)

.PHONY: suites
suites: # The names of all suites, for CI.
	@echo $(SUITES)

.PHONY: test-all
test-all: $(SUITES) ## Every test there is

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s)
	$(need-go)
	GO=$(GO) tools/fuzz.sh $(FUZZTIME)

##@ Generated code

.PHONY: gen gen-go gen-python gen-java
gen: gen-go gen-python gen-java ## Write gen/ from proto/
gen-go: $(GEN_VENV)/.installed ## Write gen/go
	$(need-go)
	tools/gen.sh go
gen-python: $(GEN_VENV)/.installed ## Write gen/python
	tools/gen.sh python
gen-java: $(GEN_VENV)/.installed ## Write gen/java
	tools/gen.sh java

.PHONY: gen-check
gen-check: gen ## Fail if gen/ is not what proto/ gives
	@[[ -z $$(git status --porcelain -- gen) ]] || \
		{ git status --short -- gen; git --no-pager diff --text -- gen | head -n 200; \
		echo "make gen-check: gen/ differs from what proto/ gives: run make gen and commit gen/" >&2; exit 1; }

$(GEN_VENV)/.installed: tools/requirements.txt
	$(need-python)
	$(PYTHON) -m venv --clear $(GEN_VENV)
	$(GEN_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement tools/requirements.txt
	@touch $@

##@ Lint

.PHONY: lint
lint: lint-go lint-proto ## Every check that runs no test

.PHONY: lint-go
lint-go: $(GOLANGCI) ## gofumpt, go vet and the linters of .golangci.yml
	$(GO) vet ./...
	$(GOLANGCI) run ./...

.PHONY: lint-proto breaking
lint-proto: $(GEN_VENV)/.installed breaking ## buf lint, buf format and buf breaking
	$(BUF) lint
	$(BUF) format --diff --exit-code

breaking: $(GEN_VENV)/.installed ## Fail if proto/ breaks clients of the last release
	$(BUF) breaking --against '.git#$(BREAKING_AGAINST)'

.PHONY: fmt
fmt: $(GOLANGCI) $(GEN_VENV)/.installed ## Format Go and proto files
	$(GOLANGCI) fmt ./...
	$(BUF) format --write

$(GOLANGCI): tools/go.mod tools/go.sum
	$(need-go)
	cd tools && $(GO) build -o ../$(GOLANGCI) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

##@ Housekeeping

.PHONY: clean
clean: ## Remove everything that was built or downloaded here
	rm -rf bin dist .cache clients/java/target clients/python/dist
	find clients/python \( -name __pycache__ -o -name '.*_cache' \) -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { split($$1, name, " "); printf "  %-16s %s\n", name[1], $$2 }' $(MAKEFILE_LIST)
