# `make check` compares this commit with the one before it, `make test` runs the tests that are not slow, `make test-all` every test.
# Each does its own set-up in .venv, with every package pinned in constraints.txt.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# A test that hangs fails with a stack after fifteen minutes, in place of using up the time of a whole run.
LIMIT = --timeout 900
PYTEST = $(PY) -m pytest -n auto --dist worksteal $(LIMIT)
MUTMUT := $(VENV)/bin/mutmut
MUTATED = $(subst /,.,$(or $(ONLY:.py=),ratchet))
MUTMUT_STAMP := $(VENV)/.mutmut
NODE := tests/workflows/node
NODE_STAMP := $(NODE)/node_modules/.installed
# Set PYTHON to choose an interpreter; otherwise the first of these that runs and is 3.11 to 3.13.
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11

.PHONY: check test test-all mutate lint schema clean
.DEFAULT_GOAL := check

check: $(STAMP)
	@$(VENV)/bin/ratchet check $(CHECK)

# Tests start many processes: compiled code is kept for them even where the environment asks for none.
test test-all: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMP) $(NODE_STAMP) lint
	@$(PYTEST) $(or $(TEST),-m "not slow")

# Coverage is never paused: while a thread of a test still runs, it cannot be turned on again.
# A test that failed beside others runs once more, alone: red is what fails twice, and what failed once stands in the log.
AGAIN = || { echo "Once more, alone, what failed:"; $(PY) -m pytest $(LIMIT) --last-failed --last-failed-no-failures none --maxfail 1
test-all: $(STAMP) $(NODE_STAMP) lint
	@$(PYTEST) --cache-clear -m "not no_cover" --cov --cov-report=term:skip-covered tests/unit $(AGAIN) -m "not no_cover" --cov --cov-append tests/unit; }
	@$(PYTEST) --cache-clear -m no_cover $(AGAIN) -m no_cover; }

# Which small changes of the rule (`only_mutate` in pyproject.toml) would no test notice? All of them take hours; ONLY=ratchet/core/judge/outcome.py
# takes one file, and JOBS=2 other than one process a core. What was tried is kept in mutants/: without ONLY, a run goes on where one stopped.
mutate: $(MUTMUT_STAMP)
	@$(MUTMUT) run $(if $(JOBS),--max-children $(JOBS)) $(if $(ONLY),'$(MUTATED).*')
	@$(MUTMUT) results | { grep -E '^ *$(MUTATED)\..*: (survived|no tests)$$' || true; } | while IFS=' :' read -r name what; do \
	  echo "$$what: $$name"; $(MUTMUT) show "$$name" | grep '^[-+] ' || true; \
	done

lint: $(STAMP)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

schema: $(STAMP)
	@$(PY) -m ratchet.common.schema results/schema

clean:
	rm -rf $(VENV)

# An earlier .venv that no longer runs (another Python, a moved folder) is made anew.
$(STAMP): constraints.txt pyproject.toml Makefile
	@if ! $(PY) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	    || ! $(VENV)/bin/pip --version >/dev/null 2>&1 \
	    || [ "$$(sed -n 's/^VIRTUAL_ENV=//p' $(VENV)/bin/activate | tr -d "'\"" | tail -1)" != "$(CURDIR)/$(VENV)" ]; then \
	  for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then found="$$python"; break; fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then echo "make: no Python 3.11 to 3.13 here: install one, or name it with make PYTHON=/path/to/python3" >&2; exit 1; fi; \
	  echo "Making $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv --clear $(VENV) || { echo "make: $$found cannot make a virtual environment: on Debian or Ubuntu, apt install python3-venv" >&2; exit 1; }; \
	fi
	@echo "Installing what constraints.txt pins into $(VENV)"
	@$(VENV)/bin/pip install --disable-pip-version-check --constraint constraints.txt setuptools
	@$(VENV)/bin/pip install --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

$(MUTMUT_STAMP): $(STAMP)
	@$(VENV)/bin/pip install --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[mutate]'
	@touch $@

# GitHub's own parser and evaluator of workflows. Without npm the tests that need them are skipped, and say so.
$(NODE_STAMP): $(NODE)/package.json $(NODE)/package-lock.json
	@if ! command -v npm >/dev/null; then \
	  echo "make: no npm here: the tests that need Node are skipped" >&2; \
	else \
	  echo "Installing GitHub's parser of workflows into $(NODE)"; \
	  npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel=error; \
	  touch $@; \
	fi
