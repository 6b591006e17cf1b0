# `make demo` and `make test` do all set-up on a fresh machine, then the job. `make help` lists the rest.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Where everything is installed, the demo's own part is too.
DEMO_SETUP := $(if $(wildcard .venv/installed),.venv/installed,.venv/demo-installed)
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Spinning OpenMP threads take the cores from everything else on a small machine.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: help demo test test-slow test-browser test-deploy test-milvus test-long test-mutations audit docs lint format size bench build release-check clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/demo-installed: PACKAGES := ".[demo,web]"
.venv/installed: PACKAGES := ".[all]" --group test --group lint --group bench --group browser --group docs --group audit --group mutation
.venv/demo-installed .venv/installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No python3 found: install Python 3.10 or newer, or say make PYTHON=/path/to/python3"; exit 1; }
	@echo "Setting up .venv (a few minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@{ $(BIN)/python -m pip install --quiet --upgrade "pip>=25.1" && $(BIN)/python -m pip install --quiet --editable $(PACKAGES); } \
	    > .venv/pip.log 2>&1 || { cat .venv/pip.log; echo "pip could not install what is needed, as it says above."; exit 1; }
	@touch $@

demo: $(DEMO_SETUP)  ## train on the emoji for a few minutes, and show what that did to retrieval
	@if [ -t 1 ] && [ -z "$$CI" ] && [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then $(BIN)/smoothap demo --serve; else $(BIN)/smoothap demo; fi

test: .venv/installed lint  ## lint, types and the tests, on all cores
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses=logical --no-loadscope-reorder
	@$(BIN)/python tools/size.py

test-slow: .venv/installed  ## the tests that take minutes
	@$(BIN)/python -m pytest -q -m slow

test-browser: .venv/installed  ## the page in headless Chromium
	@sh tests/browser/chromium.sh && $(BIN)/python -m pytest -q -m browser tests/browser

test-deploy: .venv/installed  ## the files of deploy/: nginx in front, the systemd unit, the steps of the Dockerfile
	@$(BIN)/python -m pytest -q -rs -m deploy tests/deploy

test-milvus: .venv/installed  ## search in a real Milvus server, which this sets up in .milvus/
	@$(BIN)/python tools/milvus_server.py --set-up && $(BIN)/python -m pytest -q -rs -m milvus

lint: .venv/installed  ## formatting, lint and strict types
	@$(BIN)/ruff format --check --quiet . || { echo "Run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ty check --quiet

docs: .venv/installed  ## the documentation site into site/
	@$(BIN)/zensical build --strict

format: .venv/installed  ## format the code and fix what can be fixed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

size: .venv/installed  ## lines and files of each package, and words of the pages
	@$(BIN)/python tools/size.py

bench: .venv/installed  ## side-by-side timings, each prints ratios
	@for file in benchmarks/*_cost.py benchmarks/*_speed.py; do [ -e "$$file" ] && { echo "== $$file"; $(BIN)/python $$file || exit 1; }; done; true

test-long: .venv/installed  ## the long form of every guarantee of docs/guarantees.md, or of one: make test-long GUARANTEE=9
	@$(BIN)/python tools/long_tests.py $(GUARANTEE)

audit: .venv/installed  ## licences of the pinned packages, and known flaws in them
	@$(BIN)/python tools/audit.py

test-mutations: .venv/installed  ## small faults in the core and the store, a sample of each, which a test must catch
	@$(BIN)/python tools/mutation.py

build: .venv/installed  ## sdist and wheel into dist/
	@$(BIN)/python -m pip install --quiet build && $(BIN)/python -m build

release-check: .venv/installed  ## build, install into an empty environment, and use it there
	@$(BIN)/python -m pip install --quiet build && $(BIN)/python tools/release.py

clean:  ## remove what the commands made
	rm -rf .venv .milvus dist build runs site .cache .pytest_cache .ruff_cache .hypothesis
