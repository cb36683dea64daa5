# One recipe each. `make run` and `make test` work on a fresh machine with Python 3.11 or newer.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
DATA   ?= ./data
SOAK_MINUTES ?= 120

.PHONY: setup run test nightly soak sim check fuzz fuzz-seeds bench docs protos lock clean

setup: $(STAMP)

# Reinstalls when the lock file or the project's own metadata changed, and not otherwise.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Fanlog needs Python 3.11 or newer; set PYTHON=... to one." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# A broker and a local pipeline worker. Push may reach this machine's own endpoints here, which it
# otherwise may not.
run: setup
	@echo "make run: push may reach 127.0.0.0/8 (--push-allow)"
	exec $(BIN)/fanlog up --data-dir $(DATA) --push-allow 127.0.0.0/8

# The whole suite. Three workers for two cores: much of it waits for processes, disks and Spark.
test: setup
	@scripts/test_tools.sh
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(PYTEST_ARGS)

# What takes minutes: more seeds, more damage, and property tests with examples that no run had yet;
# HYPOTHESIS_SEED=N has those of another night again.
HYPOTHESIS_SEED ?= $(shell date +%s)
nightly: setup
	@scripts/test_tools.sh
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m nightly $(PYTEST_ARGS)
	@echo "make nightly: property tests with HYPOTHESIS_SEED=$(HYPOTHESIS_SEED)"
	FANLOG_HYPOTHESIS=search $(BIN)/python -m pytest -n 2 --hypothesis-seed=$(HYPOTHESIS_SEED) tests/property

# A mixed load with restarts; memory and file descriptors must stay flat. SOAK_MINUTES=5 at night.
soak: setup
	cd tests && ../$(BIN)/python -m chaos.soak --minutes $(SOAK_MINUTES) $(SOAK_ARGS)

# Whole worlds on virtual time (docs/internals/simulator.md): SEEDS of them from FIRST on in JOBS
# processes, or the one of SEED again; MUTANTS=1 looks for the planted bugs. CLUSTER=1: worlds of a
# cluster instead.
SEEDS ?= 200
FIRST ?= 0
JOBS  ?= 1
sim: setup
	cd tests && ../$(BIN)/python -m simulator$(if $(CLUSTER),.cluster) --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS) \
	  $(if $(SEED),--seed $(SEED)) $(if $(MUTANTS),--mutants) $(SIM_ARGS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 -q -m "not slow" tests/test_tidy.py $(wildcard tests/unit tests/traces tests/property)

# Searches for inputs that break something, so many seconds for each target (docs/internals/fuzzing.md).
# Atheris is no part of the lock: where it cannot be had, Hypothesis searches.
ATHERIS := build/fuzz/atheris
SECONDS ?= 30
fuzz: setup
	@test -d $(ATHERIS) || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --only-binary :all: --target $(ATHERIS) atheris==3.0.0 || mkdir -p $(ATHERIS)
	cd tests && PYTHONPATH=.:../$(ATHERIS) ../$(BIN)/python -m fuzz.drive --seconds $(SECONDS) $(FUZZ_ARGS) $(TARGET)

fuzz-seeds: setup
	cd tests && ../$(BIN)/python -m fuzz.seeds

bench: setup
	$(BIN)/python -m bench.run $(BENCH_ARGS)

# Writes the reference pages that the code knows best, and deploy/: a dashboard and alert rules.
docs: setup
	$(BIN)/python docs/generate.py
	$(BIN)/python -m scripts.monitoring

# The modules of src/fanlog/v1, of the .proto files beside them.
protos: setup
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/fanlog/v1/*.proto
	$(BIN)/python scripts/stubs.py

# Resolves again and rewrites the lock file: names, versions and hashes, for every Python and system
# we support. Versions that still fit stay, unless UPGRADE=1.
lock:
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv; }
	build/lock/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  $(if $(UPGRADE),--upgrade) --quiet --output-file requirements.lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
