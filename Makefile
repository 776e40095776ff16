# `make demo` and `make test` need nothing but Python 3.11 or newer; both keep what they install in .venv.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo test test-all check bench docs clean

# The first suitable Python on the PATH that really starts and can make environments (a pyenv shim may do neither).
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python3.14 python; do \
	if $$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$p; break; fi; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SAY := @printf '\n== %s\n'

help:  ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 16

demo: .venv/.installed  ## Install jaxsim and simulate a chat service
	$(SAY) 'jaxsim run examples/chat.yaml --out demo-results'
	@$(BIN)/jaxsim run examples/chat.yaml --out demo-results

test: check .venv/.browser  ## Lint, types and the tests that take seconds
	$(SAY) 'pytest'
	@$(BIN)/python -m pytest -q -rs -n 2 --dist worksteal --durations=20 -m 'not slow'

test-all: check .venv/.browser .venv/.installed-ray  ## The same with the slow tests and a local Ray cluster
	$(SAY) 'pytest, slow tests included'
	@$(BIN)/python -m pytest -q -rs -n 2 --dist worksteal

check: .venv/.installed-dev  ## Lint and types only
	$(SAY) 'ruff check'
	@$(BIN)/ruff check
	$(SAY) 'ruff format --check'
	@$(BIN)/ruff format --check
	$(SAY) 'mypy'
	@$(BIN)/mypy

bench: .venv/.installed-dev  ## Every benchmark, one after the other
	@for file in benchmarks/bench_*.py; do printf '\n== %s\n' "$$file"; $(BIN)/python "$$file"; done

docs: .venv/.installed-dev  ## The documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(SAY) 'open site/index.html'

clean:  ## Remove the environment, caches and the demo's results
	rm -rf .venv demo-results site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Stamps, written only after the step succeeded: an interrupted install starts again, a finished one is not repeated.
.venv/.made:
	@test -n '$(PYTHON)' || { echo 'jaxsim needs Python 3.11 or newer with its venv module on the PATH' \
		'(Debian, Ubuntu: apt install python3-venv), or: make demo PYTHON=/path/to/python' >&2; exit 1; }
	$(SAY) 'making .venv with $(PYTHON)'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed: pyproject.toml | .venv/.made
	$(SAY) 'installing jaxsim into .venv (a minute or two, once)'
	@$(INSTALL) --editable '.[tables,plots]'
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/.made
	$(SAY) 'installing jaxsim and its development tools into .venv (a minute or two, once)'
	@$(INSTALL) --editable '.[tables,plots,xarray,sensitivity,optimise,docs,dev]'
	@touch .venv/.installed $@

.venv/.installed-ray: .venv/.installed-dev
	$(SAY) 'installing Ray into .venv'
	@$(INSTALL) --editable '.[ray]'
	@touch $@

# Pages are looked at in a real browser; where there is none to be had, the tests that need one say so.
.venv/.browser: tests/browser.py .venv/.installed-dev
	$(SAY) 'finding Chromium, or installing it'
	@$(BIN)/python tests/browser.py && touch $@ || true
