PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test docs format

demo: .venv/installed  ## search, train, prune, export and report on the built-in digits
	$(BIN)/ardor run digits --preset digits

test: .venv/installed  ## lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal  # tests compute on one thread each

docs: .venv/installed  ## links, commands, tables and code of README and docs
	$(BIN)/python benchmarks/check_docs.py

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/installed: pyproject.toml constraints.txt tests/curvlinops.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r tests/curvlinops.txt
	touch $@
