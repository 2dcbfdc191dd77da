# Everything a contributor types. `make demo` and `make test` are enough on a fresh machine.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all check bench docs clean pins peers try-peers setup-run setup-dev
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
BIN := .venv/bin

help:
	@echo 'make demo      run a small campaign and write report.html'
	@echo 'make test      the tests that take a few minutes'
	@echo 'make test-all  every test'
	@echo 'make check     formatting, lint, types, layers'
	@echo 'make bench     performance figures, as ratios'
	@echo 'make peers     environments with programs of others that tests and benchmarks talk to'
	@echo 'make docs      the documentation, into site/'
	@echo 'make clean     remove what was built; keeps campaigns/'

setup-run:
	@tools/setup.sh run

setup-dev:
	@tools/setup.sh dev

peers: setup-dev
	@tools/peers.sh

# Tests and benchmarks that need a peer leave themselves out where it cannot be installed, and say so.
try-peers: setup-dev
	@tools/peers.sh || echo 'peers: not installed; the tests that talk to them will be skipped' >&2

demo: setup-run
	$(BIN)/trialplate demo

test: try-peers
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: try-peers
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: try-peers
	$(BIN)/python benchmarks/table.py

docs: setup-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Compile the hashed requirement files again, after requirements/*.in changed. Keeps pins that still fit.
pins: setup-dev
	$(BIN)/python -m venv --clear .venv/pins
	.venv/pins/bin/python -m pip install --quiet pip-tools
	for set in run dev peer-openpi peer-vla-eval; do .venv/pins/bin/pip-compile --quiet --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-annotate --no-header --strip-extras --allow-unsafe \
	  -o requirements/$$set.txt requirements/$$set.in; done

clean:
	rm -rf .venv .peers build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
