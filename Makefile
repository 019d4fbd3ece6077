# Every command makes the environment it needs (.venv, from the python3 on PATH) and is quick the second time:
# a stamp file per extra remembers the pyproject.toml, and the source of the C extension, that it was installed for.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= auto
# What the quick gate leaves to `make test`: every operator through every check, all compositions, whole programs.
FAST   := --ignore=tests/ops/test_every_op.py --ignore=tests/compose --ignore=tests/examples --ignore=tests/cli \
          --ignore=tests/testing --ignore=tests/benchmarks
GET_PIP ?= https://bootstrap.pypa.io/get-pip.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check full bench docs lint format types sanitize package matrix coverage mutants clean distclean

help:
	@echo "make demo    check the examples' derivatives against JAX and write build/demo/report.html"
	@echo "make test    the whole test suite"
	@echo "make check   the quick gate: lint, house rules, the fast tests (under two minutes)"
	@echo "make full    the tests that take an evening: whole matrices, generators at full size"
	@echo "make bench   the benchmarks: tables of ratios against autograd and JAX"
	@echo "make docs    the documentation, warnings as errors, into build/docs"
	@echo "make package  build wheel and sdist, install them and each extra into clean environments"
	@echo "make types   mypy, and a user's file under mypy --strict and pyright"
	@echo "make sanitize the tests of the C extension, compiled with gcc's or clang's sanitizers"
	@echo "make matrix   the tests on every Python, NumPy and set of extras that this machine can install"
	@echo "make coverage the lines of dualad/ that the tests run, into build/coverage"
	@echo "make mutants FILE=dualad/... [TESTS=...]   small faults planted in a file: which do its tests catch?"
	@echo "make lint | format | clean | distclean"

demo: $(VENV)/.installed-examples-oracle
	@mkdir -p build/demo
	@$(BIN)/python -m dualad check examples --html build/demo/report.html
	@echo "report: $(CURDIR)/build/demo/report.html"

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS)

full: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --full

check: $(VENV)/.installed-lint $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow" $(FAST)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks --markdown benchmarks/README.md

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "documentation: $(CURDIR)/build/docs/index.html"

lint: $(VENV)/.installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/.installed-lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.installed-lint
	$(BIN)/mypy
	$(BIN)/mypy --strict --config-file= --follow-imports=silent tests/typing
	$(BIN)/pyright --pythonpath $(BIN)/python --project tests/typing

# The C extension under the address and undefined-behaviour sanitizers, then as it was. PYTHONMALLOC: each block is libc's.
SANITIZERS := -fsanitize=address,undefined -fno-omit-frame-pointer -g -O1
sanitize: $(VENV)/.installed-test
	$(BIN)/python hatch_build.py $(SANITIZERS)
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 PYTHONMALLOC=malloc DUALAD_CACHE=0 \
	    $(BIN)/python -m pytest -q -n 0 tests/compile/native/test_front.py tests/compile/native/test_stub.py \
	    tests/lift/test_by_itself_arrays.py; \
	    status=$$?; $(BIN)/python hatch_build.py; exit $$status

package: $(VENV)/.installed-package
	$(BIN)/python .ci/package

matrix:
	$(PYTHON) .ci/matrix

coverage: $(VENV)/.installed-test $(VENV)/.installed-coverage
	$(BIN)/python -m pytest -q -n $(WORKERS) --cov --cov-report=term:skip-covered --cov-report=html

mutants: $(VENV)/.installed-test $(VENV)/.installed-mutants
	$(BIN)/python .ci/mutants $(FILE) $(TESTS)

clean:
	rm -rf build dist docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find dualad tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# --- environment -----------------------------------------------------------------------------------------------------

# .installed-test installs dualad[test]; .installed-examples-oracle installs dualad[examples,oracle].
$(VENV)/.installed-%: pyproject.toml hatch_build.py dualad/compile/native/entry.c dualad/numpy/direct.c | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(subst -,$(comma),$*)]"
	@touch $@
comma := ,

# Debian splits ensurepip off into python3-venv. Without it, the environment is made bare and pip is fetched into it.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "dualad needs Python 3.11 or later, but $(PYTHON) is `$(PYTHON) --version`; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	    echo "$(PYTHON) -m venv $(VENV)"; \
	    $(PYTHON) -m venv $(VENV); \
	else \
	    echo "$(PYTHON) has no ensurepip: making $(VENV) bare and fetching pip"; \
	    $(PYTHON) -m venv --without-pip $(VENV) \
	    && { $(PYTHON) -m pip --python $(BIN)/python install --quiet pip 2>/dev/null || \
	         { $(BIN)/python -c 'import urllib.request as u; u.urlretrieve("$(GET_PIP)", "$(VENV)/get-pip.py")' 2>/dev/null \
	           && $(BIN)/python $(VENV)/get-pip.py --quiet; }; } \
	    || { rm -rf $(VENV); echo "could not get pip from $(GET_PIP); install it with: sudo apt install python3-venv" >&2; exit 1; }; \
	fi
	@touch $@
