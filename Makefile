# Every target that needs the environment makes it first; `make sweep` and `make test` are all one needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
SWEEP ?= smoke
STUDY ?= smoke_k
PIP_ARGS ?=
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup plan sweep ksearch status report notebook test test-fast test-gpu lint clean

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  SWEEP=name takes any file of sweeps/ (default: smoke); ARGS='cluster=local steps=20' sets more"

setup: $(STAMP)  ## make the environment in .venv (every other target does it by itself)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11: make setup PYTHON=python3.11"; exit 2; }
	@echo "installing into .venv: about 2.6 GB, a few minutes, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) -c constraints.txt -e '.[train,score,notebook,dev]'
	@touch $@

plan: $(STAMP)  ## what `make sweep` would do; changes nothing
	@$(BIN)/python -m harness plan $(SWEEP) $(ARGS)

sweep: $(STAMP)  ## train what SWEEP asks for and write reports/SWEEP/index.html
	@$(BIN)/python -m harness sweep $(SWEEP) $(ARGS)

ksearch: $(STAMP)  ## find K: carry out the study STUDY and write reports/STUDY/index.html
	@$(BIN)/python -m harness ksearch $(STUDY)

status: $(STAMP)  ## the runs and how they get on
	@$(BIN)/python -m harness status $(ARGS)

report: $(STAMP)  ## write the page of SWEEP again, a sweep or a study
	@$(BIN)/python -m harness report $(SWEEP)

notebook: $(STAMP)  ## run notebooks/review.ipynb on SWEEP into reports/SWEEP/
	@$(BIN)/python -m analysis notebook $(SWEEP)

test: $(STAMP)  ## all tests
	@$(BIN)/python -m pytest -n auto --dist loadfile

test-fast: $(STAMP)  ## the tests that take no verl, no Ray and no browser, under a minute
	@$(BIN)/python -m pytest -m 'not slow' -n auto

test-gpu:  ## the small real path on a CUDA GPU; skipped with a reason elsewhere
	@$(if $(wildcard $(STAMP)),$(BIN)/python,$(PYTHON)) -m pytest -rs tests/gpu

lint: $(STAMP)  ## ruff, mypy and the order of the rooms (import-linter)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

clean:  ## remove the environment, caches and reports; runs/ stays
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis reports *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
