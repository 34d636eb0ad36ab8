# The two commands: make demo, make test. Each builds .venv where it is missing and needs nothing done before it.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Real data where it lies beside the checkout; set AGENT_ENVS_DATA to use a folder elsewhere.
ifneq ($(wildcard ../shared/data),)
export AGENT_ENVS_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-heavy lint golden suites docs bench kill-test fault-matrix coverage scaling ablations clean

demo: $(READY)
	$(PY) -m benchmarks.demo

test: lint
	$(PY) -m pytest -q -n 2 -m "not heavy"

test-heavy: $(READY)
	$(PY) -m pytest -q -m heavy

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Record the golden replays again: only after a change that was meant to move scores (see CHANGELOG, Scores).
golden: $(READY)
	$(PY) -m tests.golden

# Write the shipped suites again: after a change of tasks, rewards or families, with the same line in CHANGELOG.
suites: $(READY)
	$(PY) -m agent_envs.evaluation.shipped

docs: $(READY)
	$(PY) -m docs.generate

# What evaluation promises and what it measures, one command each; the first three exit with 1 where a promise is broken.
kill-test: $(READY)
	$(PY) -m benchmarks.kills --kills 50

fault-matrix: $(READY)
	$(PY) -m benchmarks.faults

coverage: $(READY)
	$(PY) -m benchmarks.coverage --out benchmarks/results/coverage.json

scaling: $(READY)
	$(PY) -m benchmarks.scaling --out benchmarks/results/scaling.json

ablations: $(READY)
	$(PY) -m benchmarks.ablations --out benchmarks/results/ablations.json

bench: $(READY)
	$(PY) -m benchmarks.steps --out benchmarks/results/steps.json
	$(PY) -m benchmarks.generation --out benchmarks/results/generation.json
	$(PY) -m benchmarks.runner --out benchmarks/results/runner.json
	$(PY) benchmarks/retrieval.py $(if $(AGENT_ENVS_DATA),--data "$(AGENT_ENVS_DATA)") --out benchmarks/results/retrieval.json

clean:
	rm -rf $(VENV) demo runs build dist *.egg-info

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@
