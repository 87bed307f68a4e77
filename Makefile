# Everything a person does with this project. Each target works when repeated, and offline once `make setup` has run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Marks of tests that start servers or fill a core by themselves: one after the other. All others run on all cores.
SERVERS := spark or kafka or s3 or crash

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-slow lint fmt types imports bench docs lock clean

help:           ## what there is
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv with exactly the locked packages

$(STAMP): requirements.lock requirements-java.lock pyproject.toml scripts/setup_env.py
	$(PYTHON) scripts/setup_env.py $(VENV)
	@touch $(STAMP)

demo: $(STAMP)  ## run the e-commerce job on the embedded log and show its result
	$(BIN)/hayase demo

test-fast: $(STAMP) ## the tests that need no JVM, with few examples for each property: under a minute
	HAYASE_EXAMPLES_MAX=3 $(BIN)/python -m pytest -n auto -m "not ($(SERVERS) or long or slow)"

test: $(STAMP)  ## the whole suite with its real servers
	$(BIN)/python -m pytest -n auto -m "not ($(SERVERS) or slow)"
	$(BIN)/python -m pytest --durations=15 -m "($(SERVERS)) and not slow"

test-slow: $(STAMP) ## everything, repeated and long
	$(BIN)/python -m pytest -n auto --slow -m "not ($(SERVERS))"
	$(BIN)/python -m pytest --durations=30 --slow -m "$(SERVERS)"

lint: $(STAMP)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: $(STAMP)   ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy strict
	$(BIN)/mypy

imports: $(STAMP) ## imports go only downwards
	$(BIN)/lint-imports

bench: $(STAMP) ## side by side with Kafka Streams (needs mvn; takes long)
	$(BIN)/python -m bench run

docs: $(STAMP)  ## check that the documentation's code runs and its links lead somewhere
	$(BIN)/python -m pytest tests/docs

lock: $(STAMP)  ## make the lock files anew from pyproject.toml
	$(BIN)/python scripts/lock.py

clean:          ## remove what was built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
