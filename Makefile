# Everything a person does with this project. Each target works when repeated, and offline once `make setup` has run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Marks of tests that start servers or processes. Those with Spark fill the machine by themselves: one after the other.
# The others leave cores idle: on all cores, a file on one, so that its servers are started once.
SPARK := spark
SERVERS := (kafka or s3 or postgres or crash) and not spark
NEITHER := not (spark or kafka or s3 or postgres or crash)
ALL_CORES := -n logical --dist worksteal
# Folders of which every test needs a server or a JVM: to collect them takes each worker seconds.
NOT_COLLECTED := $(addprefix --ignore=tests/,spark kafka crash postgres)
# Python's caches of compiled files halve the time that starting a process or collecting tests takes.
unexport PYTHONDONTWRITEBYTECODE

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
	HAYASE_EXAMPLES_MAX=3 $(BIN)/python -m pytest $(ALL_CORES) -m "$(NEITHER) and not (long or slow)" $(NOT_COLLECTED)

test: $(STAMP)  ## the whole suite with its real servers
	HAYASE_EXAMPLES_MAX=8 $(BIN)/python -m pytest $(ALL_CORES) -m "$(NEITHER) and not slow"
	$(BIN)/python -m pytest $(ALL_CORES) --dist loadfile -m "$(SERVERS) and not slow"
	$(BIN)/python -m pytest --durations=15 -m "$(SPARK) and not slow"

test-slow: $(STAMP) ## everything, repeated and long
	$(BIN)/python -m pytest $(ALL_CORES) --slow -m "$(NEITHER)"
	$(BIN)/python -m pytest $(ALL_CORES) --dist loadfile --slow -m "$(SERVERS)"
	$(BIN)/python -m pytest --durations=30 --slow -m "$(SPARK)"

lint: $(STAMP)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_words.py

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
