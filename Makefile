# Every target sets itself up in .venv: nothing has to be run before it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One more than the two cores that this is written for: some tests wait. A fourth costs more than it brings.
JOBS   ?= 3

# Bytecode is kept, whatever the environment says: each worker and each process of a test would make it anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-night check format pictures prove prove-long bench coverage clean interop docs package lock sbom audit

# LOCKED=1: the very versions, by their hashes, that locks/ names; otherwise the newest that pyproject.toml allows.
LOCKED ?=
PIP    := $(BIN)/python -m pip install --disable-pip-version-check
LOCKS  := $(if $(LOCKED),locks/lab.txt locks/dev.txt)

# $(call install,EXTRA): what pip has to say is shown only if it fails.
define install
@echo "Setting up, once: pip installs hushcall[$(1)] and what it needs into $(VENV); a minute or more ..."
@{ $(if $(LOCKED),$(PIP) --require-hashes -r locks/$(1).txt && $(PIP) --no-deps --no-build-isolation -e .,$(PIP) -e '.[$(1)]'); } \
  > $(VENV)/pip.log 2>&1 || \
  { cat $(VENV)/pip.log; echo "pip could not install hushcall[$(1)]: its last words are above."; exit 1; }
endef

help:            ## this list
	@grep -E '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hushcall needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up, once: an environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: $(BIN)/python pyproject.toml $(LOCKS)
	$(call install,lab)
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml $(LOCKS)
	$(call install,dev)
	@touch $@ $(VENV)/.lab

# Three workers that each compile the same decoders would take three times as long; so would the tests' own bytecode,
# which pytest makes when it collects them.
$(VENV)/.compiled: $(VENV)/.dev
	@echo "Setting up, once: the decoders and the tests are compiled; half a minute or so ..."
	@$(BIN)/python -m pytest --collect-only > /dev/null 2>&1 & $(BIN)/python -m hushcall.learn.kernels > /dev/null && wait
	@touch $@

demo: $(VENV)/.lab  ## the whole system at work: phones, server, signed list, dashboard; nine days in a few minutes
	@echo "Starting a real server and 2,500 phones; nine days take two minutes or so ..."
	@$(BIN)/hushcall demo

test: $(VENV)/.compiled  ## all tests but the long proofs, in five minutes
	@echo "Running all tests but the long proofs, $(JOBS) at a time; on two idle cores that takes five minutes ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-all: $(VENV)/.compiled  ## all tests, the long proofs too (twenty minutes)
	@echo "Running all tests, the long proofs too, $(JOBS) at a time; on two idle cores that takes twenty minutes ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not night"

test-night: $(VENV)/.compiled  ## the proofs that take many minutes each
	@echo "Running the night's proofs, $(JOBS) at a time ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m night tests

check: $(VENV)/.dev  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(VENV)/.dev  ## the pictures of README and docs, and the figures of the demo, from real runs
	$(BIN)/hushcall simulate --picture docs/pictures/day.svg
	$(BIN)/hushcall plan --picture docs/pictures/plan.svg
	$(BIN)/hushcall experiment compare --quick --out results/pictures
	cp results/pictures/compare.svg docs/pictures/f1.svg
	$(BIN)/python -m hushcall.lab.live.pictures docs/pictures
	$(BIN)/python -m tests.lab.small_demo --readme

prove: $(VENV)/.lab  ## every promise put to the test, the short way: docs/reliability.md (minutes)
	@echo "Proving every promise the short way; that takes minutes ..."
	@$(BIN)/hushcall prove all --quick

# A temporary PostgreSQL comes with the packages of developers.
prove-long: $(VENV)/.dev  ## the same for a night: a thousand kills, ten thousand runs of faults (hours)
	@echo "Proving every promise the long way; that takes hours ..."
	@$(BIN)/hushcall prove statistics
	@$(BIN)/hushcall prove hostile --steps 100000
	@$(BIN)/hushcall prove indistinguishable --phones 3000
	@$(BIN)/hushcall prove poisoning
	@$(BIN)/hushcall prove crash --cycles 1000
	@$(BIN)/hushcall prove crash --cycles 300 --database postgresql --no-bugs
	@$(BIN)/hushcall prove crash --cycles 100 --workers 4 --no-bugs
	@$(BIN)/hushcall prove faults --runs 10000 --jobs 2 --bugs
	@$(BIN)/hushcall prove races --races 1000
	@$(BIN)/hushcall prove races --races 1000 --database postgresql --no-bugs
	@$(BIN)/hushcall prove load --seconds 600 --most 5000000
	@$(BIN)/hushcall prove pages --uploads 6000
	@$(BIN)/python tests/fuzz/fuzz_readers.py --runs 10000000 --text-runs 1000000 --jobs 2
	@$(BIN)/python tests/fuzz/fuzz_readers.py --guided --runs 1000000
	@$(BIN)/python tests/fuzz/fuzz_fast_path.py --runs 1000000

bench: $(VENV)/.dev  ## speed and memory, as ratios within one run
	$(BIN)/python -m benchmarks

PROGRAMS := kamailio kamailio-sqlite-modules nginx-light caddy prometheus vdirsyncer nodejs npm openssl sip-tester asterisk
# What packages give is installed where this may install it; what is missing is named at the end, and skipped.
interop: $(VENV)/.dev  ## other people's programs (Kamailio, nginx, Caddy, promtool, vdirsyncer, tuf-js) with our files, on loopback
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing what Debian's packages give of $(PROGRAMS) ..."; \
	  apt-get update -qq >/dev/null 2>&1; \
	  for each in $(PROGRAMS); do apt-get install -y -qq --no-install-recommends $$each >/dev/null 2>&1 || true; done; fi
	$(BIN)/python -m pytest interop -rs
	$(BIN)/python tests/interop/peer.py
	$(BIN)/python -m pytest tests/interop

docs: $(VENV)/.dev  ## docs/ as a searchable site in site/, every link checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Built in site/. To read and search it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000"

package: $(VENV)/.dev  ## a wheel and a source archive, in dist/
	$(BIN)/python -m build

# The lock names what builds hushcall, too, so that nothing that is installed goes without its hash.
lock: $(VENV)/.dev  ## locks/ anew: the newest versions that pyproject.toml allows, with their hashes
	@$(PIP) --quiet uv
	@for each in lab dev; do printf 'editables\nhatchling>=1.24\n' | $(BIN)/uv pip compile pyproject.toml - --extra $$each --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --upgrade \
	  --output-file locks/$$each.txt || exit 1; done
	$(BIN)/python docs/licences.py

sbom: $(BIN)/python  ## what a release is made of, in dist/hushcall.cdx.json (CycloneDX)
	@$(BIN)/python locks/sbom.py

# Nothing is fetched: the file comes from wherever you may fetch it.
audit: $(VENV)/.dev  ## known holes in what locks/ names: make audit ADVISORIES=FILE (OSV's all.zip for PyPI)
	@test -n "$(ADVISORIES)" || { echo "Say where the advisories are: make audit ADVISORIES=FILE (OSV's all.zip for PyPI)."; exit 2; }
	@$(BIN)/python locks/audit.py "$(ADVISORIES)"

coverage: $(VENV)/.dev  ## line coverage of the core
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term

clean:           ## remove what the other targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .interop site demo.html
	find src tests benchmarks interop -name __pycache__ -prune -exec rm -rf {} +
