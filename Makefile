PYTHON ?= python3
BIN := .venv/bin
DIST := build/dist-env/bin
EXTRAS := frames,plot
ALL := all,docs,test
# Three minutes of unit tests on two cores: something of every layer below the service, no long search for plans.
DEV_TESTS := tests/numbers tests/release \
	$(addprefix tests/tasks/test_,blind_rsa.py keys.py merkle.py oblivious.py ordering.py reports.py sparse_tasks.py) \
	$(addprefix tests/cells/test_,paper_cell.py bounded_proof.py shared_proof.py sparse_proof.py by_value_oracle.py kept.py) \
	$(addprefix tests/plans/test_,certificate.py frequency_plans.py shared_certificates.py) \
	$(addprefix tests/queries/test_,hashing.py options.py query_classes.py report_size.py words.py)
PAGES := src/shuffledp/service/pages/client

unexport PYTHONDONTWRITEBYTECODE  # servers of the tests would compile the package at every start

.PHONY: demo dev test test-unit test-system test-all check proofs dist lock attack coverage bench bench-service figures client docs document-outputs notebooks clean

demo: .venv/demo-ready  ## plan → randomize → shuffle → analyze on the bundled sample
	$(BIN)/python examples/demo.py

dev: .venv/dev-ready  ## a light set-up for a first change: no Spark, no browser, no server; then quick unit tests
	$(BIN)/python -m pytest -n 2 -m unit $(DEV_TESTS)

test: .venv/test-ready .venv/js-ready  ## every feature once: what a pull request needs
	$(BIN)/python -m pytest -n 2 -m "unit or service"

test-unit: .venv/test-ready  ## the tests that need Python alone
	$(BIN)/python -m pytest -n 2 -m unit

test-system: .venv/test-ready .venv/js-ready  ## kill runs, a season, grids, builds: what takes long
	$(BIN)/python -m pytest -n 2 -m system

test-all: test test-system proofs  ## all tests, and the machine-checked theorems (needs Coq)

check: .venv/test-ready .venv/js-ready  ## format, style, types, imports, wording
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_words.py
	@if command -v npm >/dev/null; then cd clients/js && npm run --silent check; fi

proofs:  ## the machine-checked theorems and their spoilt variants; needs Coq, installs nothing
	$(PYTHON) scripts/check_proofs.py

dist: build/dist-env/ready  ## wheel, source archive, npm package and SBOMs in dist/, checked as the indexes would
	rm -rf dist
	$(DIST)/python -m build --no-isolation --outdir dist .
	$(DIST)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	cd clients/js && npm ci --silent && npm pack --silent --pack-destination ../../dist
	$(DIST)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall dist/*.whl
	$(DIST)/python scripts/sbom.py dist
	$(DIST)/python scripts/check_dist.py dist

lock: .venv/bin/python  ## new versions and hashes for the image and the release
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python scripts/lock.py

attack: .venv/test-ready  ## every attack on the deployed system, in full; prints a table
	SHUFFLEDP_ATTACK=full $(BIN)/python -m pytest -m attack tests/attacks tests/service tests/tasks

coverage: .venv/test-ready  ## how often intervals hold the truth, on the whole grid; writes docs/coverage.md
	@mkdir -p build
	(SHUFFLEDP_COVERAGE=full $(BIN)/python -m pytest -s tests/coverage; echo $$? > build/coverage-status) \
		| tee build/coverage.txt
	@test "$$(cat build/coverage-status)" = 0
	$(BIN)/python scripts/coverage_table.py build/coverage.txt

bench: .venv/test-ready  ## what the package costs, beside the libraries that hold the data
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/bench_spark.py

bench-service: .venv/test-ready  ## the trio under load, on loopback
	$(BIN)/python scripts/bench_service.py

figures: .venv/test-ready  ## every picture of the documents, from code
	$(BIN)/python scripts/figures.py
	SHUFFLEDP_FIGURES=1 $(BIN)/python -m pytest tests/browser/test_survey.py

client: .venv/js-ready  ## the JavaScript client, built anew for the pages of the package
	cd clients/js && rm -rf dist && npm run --silent build
	rm -f $(PAGES)/*.js && cp clients/js/dist/bundle/*.js $(PAGES)
	cp clients/js/dist/pages/static/*.js docs/pages

docs: .venv/test-ready  ## the documents as a site, in build/site; a warning or a dead link is an error
	$(BIN)/python scripts/document_pages.py
	$(BIN)/python scripts/document_links.py

document-outputs: .venv/test-ready  ## what the blocks of the tutorial and the how-to pages print
	$(BIN)/python scripts/document_blocks.py --write

notebooks: .venv/test-ready  ## runs the notebooks and stores what they show
	$(BIN)/python scripts/run_notebooks.py --write

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/demo-ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	@touch $@

.venv/dev-ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

.venv/test-ready: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(ALL)]"
	@touch $@ .venv/demo-ready

# What a release is built with: exact versions, and every file has the hash that is written down.
build/dist-env/ready: .github/requirements.txt
	rm -rf build/dist-env
	$(PYTHON) -m venv build/dist-env
	$(DIST)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .github/requirements.txt
	@touch $@

# The bundlers come as a binary per platform; 'npm ci' would want all of them in the lock file.
.venv/js-ready: .venv/bin/python clients/js/package-lock.json tests/browser/npm/package-lock.json
	@if command -v npm >/dev/null; then (cd clients/js && npm ci --silent) && cd tests/browser/npm && npm install --no-save --silent; \
	else echo "npm is not installed: the JavaScript client is not tested (Debian: apt-get install nodejs npm)"; fi
	@touch $@

clean:
	rm -rf .venv build dist demo.png clients/js/node_modules clients/js/dist tests/browser/npm/node_modules
