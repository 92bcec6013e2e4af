PYTHON ?= python3
BIN := .venv/bin
EXTRAS := frames,plot
ALL := all,test

.PHONY: demo test check dist attack coverage bench bench-service figures clean

demo: .venv/demo-ready  ## plan → randomize → shuffle → analyze on the bundled sample
	$(BIN)/python examples/demo.py

test: .venv/test-ready  ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: .venv/test-ready  ## format, style, types, rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: .venv/test-ready  ## wheel and source archive in dist/, checked as an index would
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

attack: .venv/test-ready  ## every attack on the deployed system, in full; prints a table
	SHUFFLEDP_ATTACK=full $(BIN)/python -m pytest -m attack tests/attacks tests/service tests/sealed

coverage: .venv/test-ready  ## how often intervals hold the truth, on the whole grid; prints a table
	SHUFFLEDP_COVERAGE=full $(BIN)/python -m pytest -s tests/coverage

bench: .venv/bench-ready  ## ratios against peers, in one run
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/bench_quantiles.py
	$(BIN)/python scripts/bench_spark.py

bench-service: .venv/test-ready  ## the trio under load, on loopback
	$(BIN)/python scripts/bench_service.py

figures: .venv/demo-ready  ## every picture of the documents, from code
	$(BIN)/python scripts/figures.py

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/demo-ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	@touch $@

.venv/test-ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(ALL)]"
	@touch $@ .venv/demo-ready

.venv/bench-ready: .venv/test-ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

clean:
	rm -rf .venv dist demo.png
