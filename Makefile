# Thin on purpose: each target is one `python -m runner` command, which has --help that one can work from.
# Variables given to make (FAMILY=qwen3 SAMPLES=4) reach it as environment variables; `make settings` lists them all.
# GNU make answers 2 for any failed target; the exit code of the command itself is the last line that it prints.

.DEFAULT_GOAL := help
SHELL := /bin/sh
PY := .venv/bin/python
PYTEST := $(PY) -m pytest

.PHONY: help e2e e2e-miles soak matrix test test-unit test-container test-e2e check bench doctor plan gate replay merge repro up down sweep settings images micro-model lock clean
.PHONY: venv venv-dev contract contract-kit contract-conversion sglang-upgrade

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

e2e: venv ## the main job: set up what is missing, run every planned cell, verdict, artifacts, tear down
	@exec $(PY) -m runner e2e

matrix: venv ## every family x every lane on the scripted engine (no SGLang, no model): minutes; FAMILY= SHARD= LEASES=
	@ENGINE=scripted FAMILY="$${FAMILY:-all}" exec $(PY) -m runner e2e

e2e-miles: venv ## upstream's published session server, restricted to what it promises (STREAM=, APPEND_ROLES= say otherwise)
	@image=$$($(PY) -m runner images --only session-server-miles) && SESSION_IMAGE=$${image#*=} \
		STREAM=$${STREAM:-never} APPEND_ROLES=$${APPEND_ROLES:-tool,user} CELL=$${CELL:-qwen3/v1-openai} $(PY) -m runner e2e

soak: venv ## the same plan RUNS times (10) and one table of outcomes: make soak RUNS=10, with URLs of servers that run
	@exec $(PY) -m runner soak --runs "$(or $(RUNS),10)"

test: venv-dev ## all tests that need no GPU (sets up what is missing, as `make e2e` does)
	@$(PY) -m runner images --with-tests
	@$(PYTEST) tests/unit -n auto -q
	@$(PYTEST) tests/container -n 2 --dist loadgroup -v
	@$(PYTEST) tests/e2e -v

test-unit: venv-dev ## the fast part: no Docker
	@$(PYTEST) tests/unit -n auto -q

test-container: venv-dev ## real containers, scripted engine
	@$(PY) -m runner images --with-tests
	@$(PYTEST) tests/container -n 2 --dist loadgroup -v

test-e2e: venv-dev ## real SGLang
	@$(PY) -m runner images --with-tests
	@$(PYTEST) tests/e2e -v

check: venv-dev ## formatting, lint, types, import rule
	@.venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && .venv/bin/lint-imports

bench: venv-dev ## the session server's cost: turns/s and latencies of a zero-work engine stub, v1 and v2, in one run
	@cd images/session-server && exec ../../$(PY) -m bench

doctor: venv ## what is missing on this machine, and the line that mends it
	@exec $(PY) -m runner doctor

plan: venv ## what `make e2e` would run, without starting anything: a table, or JSON where it goes into a file or pipe
	@exec $(PY) -m runner plan

gate: venv ## judge recorded artifacts again: make gate RUN=artifacts/<run id>
	@exec $(PY) -m runner gate "$(or $(RUN),$(error RUN=artifacts/<run id> is missing))"

replay: venv ## oracle and gate again on recorded artifacts, without containers: make replay RUN=artifacts/<run id>
	@exec $(PY) -m runner replay "$(or $(RUN),$(error RUN=artifacts/<run id> is missing))"

merge: venv ## one verdict of the artifacts of many shards: make merge OUT=artifacts/<name> RUNS="<run> <run>"
	@exec $(PY) -m runner merge "$(or $(OUT),$(error OUT=artifacts/<name> is missing))" $(RUNS)

repro: venv ## one recorded cell again: make repro RUN=artifacts/<run id> CELL=qwen3/v2-anthropic/baseline
	@exec $(PY) -m runner repro "$(or $(RUN),$(error RUN=artifacts/<run id> is missing))" "$(or $(CELL),$(error CELL=<family>/<lane>/<scenario> is missing))"

contract: venv-dev ## SGLang's own conversion tests from a checkout: make contract SGLANG_SOURCE_ROOT=<checkout>
	@exec $(PY) -m runner contract sglang

contract-kit: venv ## SGLang's own Anthropic kit, live against the engine image
	@exec $(PY) -m runner contract kit

contract-conversion: venv ## our Anthropic conversion against the one installed in the engine image, case by case
	@exec $(PY) -m runner contract conversion

sglang-upgrade: venv-dev ## another SGLang beside the pinned one, as a table: make sglang-upgrade VERSION=0.5.24
	@exec $(PY) -m runner sglang-upgrade "$(or $(VERSION),$(error VERSION=<version of SGLang> is missing))"

up: venv ## the environment for a person: URLs and a curl line
	@exec $(PY) -m runner up

down: venv ## remove what `make up` started
	@exec $(PY) -m runner down

sweep: venv ## remove what killed runs left, by our label only
	@exec $(PY) -m runner sweep

settings: venv ## every variable, with its values and default
	@exec $(PY) -m runner settings

images: venv ## build what is missing, and nothing else
	@exec $(PY) -m runner images

micro-model: venv ## train the CPU micro model of FAMILY again (minutes) into images/engine-cpu/models
	@exec $(PY) -m runner micro-model

venv: ## the virtual environment that every command needs (each makes it by itself)
	@sh runner/ground/venv.sh requirements.lock

venv-dev: ## the same with what tests and checks need
	@sh runner/ground/venv.sh requirements-dev.lock

lock: venv-dev ## pin all dependencies again, with hashes
	@sh runner/ground/lock.sh

clean: ## remove the virtual environment and caches of this checkout (images and artifacts stay)
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
