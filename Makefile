# Everything sets itself up: git, make and Python 3.11 or newer are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PROTOS := $(wildcard proto/timerd/v1/*.proto proto/timerd/peer/*/*.proto)
# The folders with Python code of ours, as far as they exist.
CODE := $(wildcard timerd tests benchmarks examples k8s .ci/*.py)
TESTS ?=
LINTS := lint-ruff lint-format lint-types lint-imports lint-sizes lint-words lint-docstrings lint-proto lint-buf lint-k8s

.DEFAULT_GOAL := help
.PHONY: help venv demo cluster cluster-demo chaos departures departures-cluster test test-long lint $(LINTS) format proto bench \
	bench-peers models mutants docs wheel native release image-lock fuzz-http fuzz-webhooks first-hours clean

help:
	@echo "make demo     schedule 10,000 tasks, kill the server in the middle, count what arrived"
	@echo "make cluster  start Cassandra, Redis, three instances here, until Ctrl-C (JDK 17, Maven, redis-server; or Docker)"
	@echo "make cluster-demo  the demo on these: an instance is killed in the middle (ARGS='--tasks 2000 --seconds 12')"
	@echo "make chaos    faults on three instances on Cassandra under load, judged by callers and workers (ROUNDS=n)"
	@echo "make departures  replay a day of real flights and check every one"
	@echo "make departures-cluster  the same on three instances and Cassandra, one of which is killed on the way"
	@echo "make test     run the tests (TESTS=tests/test_tidy.py for some of them)"
	@echo "make test-long  those that take long"
	@echo "make lint     ruff, mypy, import rules, size figures, docstrings, proto rules"
	@echo "make format   let ruff arrange the code"
	@echo "make proto    regenerate timerd/v1 and timerd/peer from proto/"
	@echo "make models   search what is new in the protocol's models (needs spin and a C compiler)"
	@echo "make mutants  make the code wrong in a line, once for each of some 300 mistakes: do the tests notice? (SHARE=3: a third)"
	@echo "make bench    measure, and write docs/understand/benchmarks.md (10 minutes; long ones: python -m benchmarks --all)"
	@echo "make bench-peers  the same beside Redis, PostgreSQL, beanstalkd, Celery, BullMQ, APScheduler (20 minutes)"
	@echo "make docs     build the pages as a site into build/site, which opens offline; a dead link fails"
	@echo "make wheel    build the wheel into dist/ and look into it"
	@echo "make native   build the wheel of the native front door into dist/ (cargo; docs/understand/native-door.md)"
	@echo "make first-hours  what three newcomers type, from the docs, in a fresh clone; the time of each step"
	@echo "make fuzz-http  ten minutes of drawn requests at the HTTP port (SECONDS=60)"
	@echo "make fuzz-webhooks  as long of answers that no receiver should give, to the webhooks of a server (SECONDS=60)"
	@echo "make release TAG=v0.1.0  sdist and wheels of a tag into dist/, tried in fresh environments; nothing is published"
	@echo "make image-lock  bring requirements.lock up to pyproject.toml; what it pins already stays (UPGRADE=--upgrade)"
	@echo "make venv     set up .venv only"

venv: .venv/.dev

# What a user gets.
.venv/.base: pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "timerd needs Python 3.11 or newer. Install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "setting up .venv ..."; "$(PYTHON)" -m venv .venv; } || \
	  { rm -rf .venv; echo "Python's venv module is missing: install python3-venv and try again." >&2; exit 1; }
	@echo "installing timerd into .venv (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# What a developer gets.
.venv/.dev: .venv/.base
	@echo "installing the developer tools into .venv (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: .venv/.base
	@$(BIN)/timerd demo

cluster: .venv/.dev
	@$(BIN)/python -m tests.engines.cluster

ARGS ?=
cluster-demo: .venv/.dev
	@$(BIN)/python -m tests.engines.cluster_demo $(ARGS)

# So many rounds of faults on three instances; FAULTS=kill,roll for some of them only.
ROUNDS ?= 10
FAULTS ?= all
NODES ?= 1
chaos: .venv/.dev
	@$(BIN)/python -m tests.chaos --rounds $(ROUNDS) --faults $(FAULTS) --nodes $(NODES)

# Side by side, since much of it is waiting for processes; then those on a Cassandra node by themselves, for which a machine of
# two cores has to keep up. JOBS=0 for one after the other in one process. Code 5 of pytest: none was chosen.
JOBS ?= 3
test: .venv/.dev
	@$(BIN)/python -m pytest -n $(JOBS) --max-worker-restart=2 -m "not engines and not long" $(TESTS); one=$$?; \
	$(BIN)/python -m pytest -m "engines and not long" $(TESTS); two=$$?; \
	[ $$one -eq 0 -o $$one -eq 5 ] && [ $$two -eq 0 -o $$two -eq 5 ] && [ $$one$$two != 55 ]

# What `make test` leaves out; and the histories of both simulators are as many as one likes (python -m tests.simulator).
test-long: .venv/.dev
	@$(BIN)/python -m pytest -m long $(TESTS)

departures: .venv/.dev
	@$(BIN)/python -m examples.departures replay

departures-cluster: .venv/.dev
	@$(BIN)/python -m examples.departures replay --cluster

# `make -k lint` shows the findings of all of them.
lint: $(LINTS)
$(LINTS): .venv/.dev
lint-ruff:
	$(BIN)/ruff check .
lint-format:
	$(BIN)/ruff format --check .
lint-types:
	$(BIN)/mypy --strict $(CODE)
lint-imports:
	$(BIN)/lint-imports --no-cache
lint-sizes:
	$(BIN)/python .ci/style.py
lint-words:
	$(BIN)/python .ci/words.py
lint-docstrings:
	$(BIN)/python .ci/docstrings.py
lint-proto:
	$(BIN)/python .ci/proto_rules.py
lint-buf:
	$(BIN)/python .ci/buf_rules.py
lint-k8s:
	$(BIN)/python .ci/manifests.py

format: .venv/.dev
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

proto: .venv/.dev
	@$(BIN)/python .ci/proto_rules.py --write

bench: .venv/.dev
	@$(BIN)/python -m benchmarks --write-docs

# Libraries and servers of the peers are fetched into a cache outside of the tree, and installed nowhere.
bench-peers: .venv/.dev
	@$(BIN)/python -m benchmarks.peers --fetch --write-docs

models: .venv/.dev
	@$(BIN)/python -m tests.models

# SHARE=3 draws a third of them by the commit, so that other ones have their turn with each.
SHARE ?= 1
mutants: .venv/.dev
	@$(BIN)/python -m tests.mutants --share $(SHARE) --seed "$$(git rev-parse --short HEAD 2>/dev/null)"

# A user's venv is enough, with the extra `docs`.
.venv/.docs: .venv/.base
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

docs: .venv/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

wheel: .venv/.dev
	@$(BIN)/python .ci/wheel_check.py

# Nothing else needs cargo, and nothing else builds it. The builder has an environment of its own.
native:
	@command -v cargo >/dev/null || { echo "The native front door is built with cargo: install Rust. timerd works without it." >&2; exit 1; }
	@test -x build/maturin/bin/maturin || { "$(PYTHON)" -m venv build/maturin && \
	  build/maturin/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'; }
	@build/maturin/bin/maturin build --quiet --release --manifest-path native/Cargo.toml --out dist

# URL=https://... where the project is; without it the remote `origin`, if a browser can reach it.
TAG ?=
URL ?=
release: .venv/.dev
	@$(BIN)/python .ci/release.py $(TAG) $(if $(URL),--url $(URL))

# For all Pythons and machines in one file. What it is compared with stands in build/, for a target that breaks off.
UPGRADE ?=
image-lock:
	@"$(PYTHON)" -m venv build/lock
	@build/lock/bin/pip install --quiet --disable-pip-version-check uv
	@tail -n +2 requirements.lock > build/lock/requirements
	@build/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --python-version 3.11 --extra cassandra --extra redis --extra jwt $(UPGRADE) --output-file build/lock/requirements pyproject.toml
	@{ head -n 1 requirements.lock; cat build/lock/requirements; } > build/lock/new && mv build/lock/new requirements.lock

# The clone and what it installs are gone afterwards.
first-hours: .venv/.dev
	@$(BIN)/python -m tests.first_hour

# Ten minutes of requests drawn from the API's own description, at the HTTP port of a real server.
SECONDS ?= 600
fuzz-http: .venv/.dev
	@test -x build/fuzz/bin/schemathesis || { "$(PYTHON)" -m venv build/fuzz && \
	  build/fuzz/bin/pip install --quiet --disable-pip-version-check 'schemathesis>=4,<5'; }
	@$(BIN)/python -m tests.web.fuzz --schemathesis build/fuzz/bin/schemathesis --seconds $(SECONDS)

fuzz-webhooks: .venv/.dev
	@$(BIN)/python -m tests.webhooks.fuzz --seconds $(SECONDS)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
