# Every target sets itself up in .venv: nothing has to be run before it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format pictures prove bench interop coverage clean

help:            ## this list
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hushcall needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lab]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.lab

demo: $(VENV)/.lab  ## the whole system at work: phones, server, signed list, dashboard; nine days in a minute
	$(BIN)/hushcall demo

test: $(VENV)/.dev  ## all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.dev  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(VENV)/.dev  ## the pictures of README and docs, from real runs
	$(BIN)/hushcall simulate --picture docs/pictures/day.svg
	$(BIN)/hushcall plan --picture docs/pictures/plan.svg
	$(BIN)/hushcall experiment compare --quick --out results/pictures
	cp results/pictures/compare.svg docs/pictures/f1.svg
	$(BIN)/python -m hushcall.lab.live.pictures docs/pictures

prove: $(VENV)/.lab  ## how often numbers are found and noise is listed, beside the promises (minutes)
	$(BIN)/hushcall prove

bench: $(VENV)/.dev  ## speed and memory, as ratios within one run
	$(BIN)/python -m benchmarks

interop: $(VENV)/.dev  ## our blind tokens and Oblivious HTTP against packages from npm (needs node and the network)
	$(BIN)/python tests/interop/peer.py
	$(BIN)/python -m pytest tests/interop

coverage: $(VENV)/.dev  ## line coverage of the core
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

clean:           ## remove what the other targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .interop demo.html
