# Every target sets up .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

PACKAGES := . lab home

# Test workers: one more than two cores, because some tests wait.
JOBS   ?= 3

# Keep bytecode, so that workers and test processes do not compile it again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-night check format pictures prove prove-long bench coverage clean interop docs pdf package same-bytes smoke lock sbom audit

# LOCKED=1 installs the versions of locks/ by hash. Otherwise pip takes the newest that pyproject.toml allows.
LOCKED ?=
PIP    := $(BIN)/python -m pip install --disable-pip-version-check
LOCKS  := $(if $(LOCKED),locks/lab.txt locks/dev.txt)

# $(call install,LOCK,EXTRA,FOLDERS) shows pip's output only if pip fails.
define install
@echo "Setting up, once: pip installs hushcall[$(2)], $(3:%=hushcall-%) and what they need into $(VENV); a minute or more ..."
@{ $(if $(LOCKED),$(PIP) --require-hashes -r locks/$(1).txt && $(PIP) --no-deps --no-build-isolation -e . $(3:%=-e %),$(PIP) -e '.[$(2)]' $(3:%=-e %)); } \
  > $(VENV)/pip.log 2>&1 || \
  { cat $(VENV)/pip.log; echo "pip could not install hushcall[$(2)], $(3:%=hushcall-%): its output is above."; exit 1; }
endef

help:            ## show this list
	@grep -E '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hushcall needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up, once: an environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: $(BIN)/python pyproject.toml lab/pyproject.toml $(LOCKS)
	$(call install,lab,server,lab)
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml lab/pyproject.toml home/pyproject.toml $(LOCKS)
	$(call install,dev,dev,lab home)
	@touch $@ $(VENV)/.lab

# Compiled once here, not once in each worker: the decoders, and the tests' bytecode.
$(VENV)/.compiled: $(VENV)/.dev
	@echo "Setting up, once: the decoders and the tests are compiled; half a minute or so ..."
	@$(BIN)/python -m pytest --collect-only > /dev/null 2>&1 & $(BIN)/python -m hushcall.mechanisms.kernels.warm_up > /dev/null && wait
	@touch $@ $(VENV)/.kernels

$(VENV)/.kernels: $(VENV)/.lab
	@echo "Setting up, once: the decoders are compiled; half a minute or so ..."
	@$(BIN)/python -m hushcall.mechanisms.kernels.warm_up > /dev/null
	@touch $@

demo: $(VENV)/.kernels  ## phones, a server and a signed list, live: nine days in a minute or so
	@echo "Starting a real server and 2,500 phones; nine days take a minute or so ..."
	@$(BIN)/hushcall-lab demo

test: $(VENV)/.compiled  ## all tests but the long ones (five minutes)
	@echo "Running all tests but the long proofs, $(JOBS) at a time; on two idle cores that takes five minutes ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-all: $(VENV)/.compiled  ## all tests but those of many minutes (twenty minutes)
	@echo "Running all tests, the long proofs too, $(JOBS) at a time; on two idle cores that takes twenty minutes ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not night"

test-night: $(VENV)/.compiled  ## the tests of many minutes each
	@echo "Running the night's proofs, $(JOBS) at a time ..."
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m night tests

check: $(VENV)/.dev  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## fix lint and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(VENV)/.dev  ## pictures and demo figures of README and docs
	$(BIN)/hushcall-lab simulate --picture docs/pictures/day.svg
	$(BIN)/hushcall-lab experiment closed-loop --out results/pictures --page docs/results.md
	$(BIN)/hushcall-lab experiment latency --out results/pictures --page docs/results.md
	cp results/pictures/closed-loop.svg results/pictures/latency.svg docs/pictures/
	$(BIN)/python docs/draw_pictures.py docs/pictures
	$(BIN)/python -m tests.lab.small_demo --default

prove: $(VENV)/.lab  ## test every promise of docs/reliability.md (minutes)
	@echo "Proving every promise the short way; that takes minutes ..."
	@$(BIN)/hushcall-lab prove all --quick

# The developers' packages bring a temporary PostgreSQL.
prove-long: $(VENV)/.dev  ## the same at full length (hours)
	@echo "Proving every promise the long way; that takes hours ..."
	@$(BIN)/hushcall-lab prove --page docs/reliability.md statistics
	@$(BIN)/hushcall-lab prove --page docs/threat-model.md hostile --steps 100000
	@$(BIN)/hushcall-lab prove --page docs/threat-model.md indistinguishable --phones 10000 --workers 2
	@$(BIN)/hushcall-lab prove --page docs/threat-model.md poisoning
	@$(BIN)/hushcall-lab prove --page docs/reliability.md crash --cycles 1000
	@$(BIN)/hushcall-lab prove --page docs/reliability.md#crash-postgresql crash --cycles 300 --database postgresql --no-bugs
	@$(BIN)/hushcall-lab prove --page docs/reliability.md#crash-workers crash --cycles 100 --workers 4 --no-bugs
	@$(BIN)/hushcall-lab prove --page docs/reliability.md faults --runs 10000 --jobs 2 --bugs
	@$(BIN)/hushcall-lab prove --page docs/reliability.md races --races 1000
	@$(BIN)/hushcall-lab prove --page docs/reliability.md#races-postgresql races --races 1000 --database postgresql --no-bugs
	@$(BIN)/hushcall-lab prove --page docs/reliability.md load --seconds 600 --most 5000000
	@$(BIN)/hushcall-lab prove --page docs/reliability.md soak
	@$(BIN)/hushcall-lab prove --page docs/reliability.md pages --uploads 6000
	@$(BIN)/python tests/fuzz/fuzz_readers.py --runs 10000000 --text-runs 1000000 --jobs 2
	@$(BIN)/python tests/fuzz/fuzz_readers.py --guided --runs 1000000
	@$(BIN)/python tests/fuzz/fuzz_fast_path.py --runs 1000000

bench: $(VENV)/.dev  ## speed and memory
	$(BIN)/hushcall-lab bench all

PROGRAMS := kamailio kamailio-sqlite-modules nginx-light caddy prometheus vdirsyncer nodejs npm openssl sip-tester asterisk
# Installs the programs where it may. Tests of missing programs are skipped and listed at the end.
interop: $(VENV)/.dev  ## other people's programs with our files: Kamailio, nginx, Caddy, and others
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing what Debian's packages give of $(PROGRAMS) ..."; \
	  apt-get update -qq >/dev/null 2>&1; \
	  for each in $(PROGRAMS); do apt-get install -y -qq --no-install-recommends $$each >/dev/null 2>&1 || true; done; fi
	$(BIN)/python -m pytest tests/interop/programs -rs
	$(BIN)/python tests/interop/peer.py
	$(BIN)/python -m pytest tests/interop

docs: $(VENV)/.dev  ## docs/ as a site in site/, with links checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Built in site/. To read and search it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000"

pdf: docs  ## docs/mechanism.md as site/mechanism.pdf, printed by the Chromium that is installed
	@$$(command -v chromium chromium-browser google-chrome | head -n 1) --headless --no-sandbox --disable-gpu \
	  --no-pdf-header-footer --print-to-pdf=site/mechanism.pdf "file://$(CURDIR)/site/mechanism.html" 2>/dev/null
	@echo "Printed: site/mechanism.pdf"

# The same bytes in every folder: hatchling sorts, and takes its times from SOURCE_DATE_EPOCH. LOCKED=1 fixes hatchling.
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
package: $(VENV)/.dev  ## wheels and source archives of all packages, in dist/, and their digests
	@rm -rf dist
	@for each in $(PACKAGES); do $(BIN)/python -m build $(if $(LOCKED),--no-isolation) --outdir dist $$each || exit 1; done
	@cd dist && sha256sum *

# After package: a clone of this commit elsewhere, built with the same tools.
same-bytes: ## what is in dist/ is built again elsewhere, and must be the same bytes
	@place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && git clone --quiet . "$$place/clone" && \
	  export SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" && for each in $(PACKAGES); do $(BIN)/python -m build \
	  $(if $(LOCKED),--no-isolation) --outdir "$$place/dist" "$$place/clone/$$each" > /dev/null || exit 1; done && \
	  cd "$$place/dist" && sha256sum * > "$$place/sums" && cd "$(CURDIR)/dist" && sha256sum --check "$$place/sums"

smoke: package  ## the wheels of dist/ in a fresh environment, used: make smoke SMOKE="python3.11 python3.14"
	@for each in $(or $(SMOKE),$(BIN)/python); do $$each tests/smoke.py dist || exit 1; done

# The locks include the build backend, so that everything is installed by hash.
lock: $(VENV)/.dev  ## renew locks/ with the newest versions that pyproject.toml allows
	@$(PIP) --quiet uv
	@for each in 'lab .[server] lab' 'home . home' 'dev .[dev] lab home'; do set -- $$each; shift; \
	  { printf 'editables\nhatchling>=1.24\n'; printf -- '-e %s\n' "$$@"; } | \
	  $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --no-strip-extras --no-emit-package hushcall --no-emit-package hushcall-lab --no-emit-package hushcall-home --quiet --upgrade \
	  --output-file locks/$${each%% *}.txt || exit 1; done
	$(BIN)/python docs/licences.py

sbom: $(BIN)/python  ## bill of materials, in dist/hushcall.cdx.json (CycloneDX)
	@$(BIN)/python locks/sbom.py

# Fetches nothing: the advisories are a file.
audit: $(VENV)/.dev  ## known vulnerabilities of locks/: make audit ADVISORIES=FILE
	@test -n "$(ADVISORIES)" || { echo "Say where the advisories are: make audit ADVISORIES=FILE (OSV's all.zip for PyPI)."; exit 2; }
	@$(BIN)/python locks/audit.py "$(ADVISORIES)"

coverage: $(VENV)/.dev  ## line coverage
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term

clean:           ## remove .venv, caches and built pages
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .interop site
	find src lab home tests -name __pycache__ -prune -exec rm -rf {} +
