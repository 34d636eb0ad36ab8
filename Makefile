# The two commands: make demo, make test. Each builds .venv where it is missing and needs nothing done before it.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# torch comes first and by name, from the index that suits the machine (README: the CPU one, the GPU one).
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
# No setting of the caller's interpreter counts: tests start many short processes, which find compiled modules, and have asserts.
unexport PYTHONDONTWRITEBYTECODE PYTHONOPTIMIZE PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONWARNINGS PYTHONINSPECT PYTHONHASHSEED
# Three workers, as some tests wait (for limits of time, for processes of their own) while a core stands by. Each begins with
# a third of the tests in their order, so that modules build what they share once.
PYTEST := $(PY) -m pytest -q -n 3 --dist worksteal
# Of the heavy ones, those of an `xdist_group` stay together: what they share takes minutes to build. Large groups come first.
HEAVY := $(PY) -m pytest -q -n 2 --dist loadgroup --hypothesis-profile thorough
# The modules that name a mark: to collect all the others too took each worker ten seconds. tests/conftest.py holds that no
# test has a mark that its module does not name.
MARKED = $$(grep -rlE --include="test_*.py" "mark\.($(1))\b$(2)" tests | sort)
.PHONY: demo demo-full test pytest test-skipped test-data data-there test-heavy test-integrations lint types style imports golden suites docs bench kill-test fault-matrix coverage scaling learn release-check site \
  sandbox sandbox-latency sandbox-abuse sandbox-kills clean

demo: $(READY)
	$(PY) -m benchmarks.demo

# More tasks, training to the end of its preset, and a second model, which learns to sort: several CPU-minutes.
demo-full: $(READY)
	$(PY) -m benchmarks.demo --full --out demo-full

# What fails in seconds comes first; the types take a minute of one core, and are checked beside the tests.
test: $(READY)
	$(MAKE) --no-print-directory -j 2 style imports
	$(MAKE) --no-print-directory -j 2 types pytest

# What skips for a need (tests/needs.py) is listed in the file SKIPPED, where one is named.
pytest: $(READY)
	$(PYTEST) -m "not heavy and not data" $(if $(SKIPPED),--skipped-to "$(SKIPPED)")

# The tests of that list, once what they need is there.
test-skipped: $(READY)
	@if [ -s "$(SKIPPED)" ]; then $(PYTEST) "@$(SKIPPED)"; else echo "no test was skipped"; fi

# What needs real data (docs/data.md), from the folder that AGENT_ENVS_DATA names. Without it nothing is skipped: it fails.
test-data: data-there $(READY)
	$(PYTEST) -m "data and not heavy" $(call MARKED,data)

data-there:
	@test -d "$(AGENT_ENVS_DATA)" || { echo "make test-data: set AGENT_ENVS_DATA to a folder of data sets (docs/data.md)" >&2; exit 1; }

# The venv of vLLM is built by the tests that need it, while the other worker plays. Tests that play a part of their cases in
# make test (tests/examples.py), and all properties, are played again on all.
test-heavy: $(READY)
	$(HEAVY) -m "heavy or (thorough or hypothesis) and not data" $(call MARKED,heavy|thorough,|^ *from (hypothesis|tests.examples) import)

# Each adapter on its real package, pinned, in a venv of its own, one after the other; needs a network of packages.
test-integrations: $(READY)
	$(PY) -m tests.integrations.real $(if $(VENVS),--venvs "$(VENVS)") $(ONLY)

# Two at a time: mypy takes as long as the rest together.
lint: $(READY)
	$(MAKE) --no-print-directory -j 2 types style imports

types: $(READY)
	$(VENV)/bin/mypy

style: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

imports: $(READY)
	$(VENV)/bin/lint-imports

# Record the golden replays: of new ids (make golden ID=Sort), or again, after a change that was meant to move scores (see
# CHANGELOG, Scores).
golden: $(READY)
	$(PY) -m tests.golden $(ID)

# Write the shipped suites again: after a change of tasks, rewards or families, with the same line in CHANGELOG.
suites: $(READY)
	$(PY) -m leaderboard.write_suites

# Tables and pages that are generated first, which needs no network; then the site, in build/site/html. Its search works from a
# server (python -m http.server -d build/site/html), as from a file it needs a network.
docs: $(READY)
	$(PY) -m docs.generate
	$(MAKE) --no-print-directory site

# What evaluation promises and what it measures, one command each; the first three exit with 1 where a promise is broken.
kill-test: $(READY)
	$(PY) -m benchmarks.kills --kills 50

fault-matrix: $(READY)
	$(PY) -m tests.heavy.fault_matrix

coverage: $(READY)
	$(PY) -m benchmarks.coverage --out benchmarks/results/coverage.json

scaling: $(READY)
	$(PY) -m benchmarks.scaling --out benchmarks/results/scaling.json

# Do the reference trainers learn? Five seeds a preset that no setting was chosen on, one torch thread each: hours.
learn: $(READY)
	$(PY) -m benchmarks.learn --out benchmarks/results/learn.json
	$(PY) -m benchmarks.earl_learn --out benchmarks/results/earl.json
	$(PY) -m benchmarks.veg_learn --out benchmarks/results/veg.json
	$(PY) -m benchmarks.arpo_learn --out benchmarks/results/arpo.json
	$(PY) -m benchmarks.legal_learn --out benchmarks/results/legal_learn.json
	$(PY) -m benchmarks.verlog_learn --out benchmarks/results/verlog_learn.json

# The Python sandboxes (docs/sandbox.md): times; 35 abuses of each, exit 1 where one gets through; workers killed in use.
sandbox: sandbox-latency sandbox-abuse sandbox-kills

sandbox-latency: $(READY)
	$(PY) -m benchmarks.sandbox --latency --out benchmarks/results/sandbox.json

sandbox-abuse: $(READY)
	$(PY) -m benchmarks.sandbox --abuse --out benchmarks/results/sandbox.json

sandbox-kills: $(READY)
	$(PY) -m benchmarks.sandbox --kills 50 --out benchmarks/results/sandbox.json

# The last one prints what was promised, met or missed, and exits with 1 where a goal that was met is lost, with 2
# where the machine's speed moved so much that nothing is judged.
bench: $(READY)
	$(PY) -m benchmarks.steps --out benchmarks/results/steps.json
	$(PY) -m benchmarks.generation --out benchmarks/results/generation.json
	$(PY) -m benchmarks.runner --out benchmarks/results/runner.json
	$(PY) benchmarks/retrieval.py $(if $(AGENT_ENVS_DATA),--data "$(AGENT_ENVS_DATA)") --out benchmarks/results/retrieval.json
	$(PY) -m benchmarks.goals

# All of a release that can be checked before it is published (.github/CONTRIBUTING.md); the archives are left in dist/.
release-check: .venv-tools/.ready
	.venv-tools/bin/python .ci/release_check.py $(if $(RELEASE),--release "$(RELEASE)")

# The static site alone, from the pages and docstrings as they stand. The first time installs its tools.
site: .venv-tools/.ready
	.venv-tools/bin/python docs/build_site.py

.venv-tools/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-tools
	.venv-tools/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-tools/bin/python -m pip install --quiet --group tools
	@touch $@

clean:
	rm -rf $(VENV) .venv-vllm .venv-tools demo demo-full runs build dist

$(READY): pyproject.toml
	@$(PYTHON) .ci/install.py "$(VENV)" --torch "$(TORCH)" --torch-index "$(TORCH_INDEX)"
	@touch $@

# vLLM's community build for CPUs, in an environment of its own: tests only.
.venv-vllm/.ready: pyproject.toml trainers/vllm_venv.sh
	PYTHON=$(PYTHON) sh trainers/vllm_venv.sh .venv-vllm
