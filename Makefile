# Each target sets itself up: on a fresh machine with Python >= 3.11 and pip, `make demo` or `make test` is all there is to do.
SHELL := /bin/bash
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
QUIET := HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

.DEFAULT_GOAL := help
.PHONY: help venv demo test check docs clean

help: ## what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 14

venv: $(STAMP) ## our own .venv with the pinned versions of constraints.txt

# torch first and pinned: an open range would fetch gigabytes on machines that have a wheel at hand.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("paceline needs Python >= 3.11; this is " + sys.version.split()[0] + " (choose another one: make PYTHON=python3.12)")'
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt torch==$$(sed -n 's/^torch==//p' constraints.txt)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## a streamed answer about a picture and a comparison table, under five minutes on two cores
	@$(QUIET) $(BIN)/python -m paceline.cli.demo

test: $(STAMP) ## the whole suite; JOBS=n workers of one thread each
	$(QUIET) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --durations=15

check: $(STAMP) ## lint, format, types of the core, architecture, quick laws: under two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(QUIET) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" tests/laws tests/test_architecture.py tests/test_docs.py

docs: $(STAMP) ## write docs/reference from the code, then check what all documents claim
	$(BIN)/python docs/build.py
	$(BIN)/python -m pytest -q tests/test_docs.py

clean: ## forget the .venv and the caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
