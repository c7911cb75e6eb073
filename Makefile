# The menu; `make` alone prints it. Every target sets up .venv first when that is missing.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
WITH_PYTHON := source ./setup.sh;
.PHONY: help test lint lab site readme bench audit

help:  ## this list
	@grep -hE '^[a-z]+: *##' $(MAKEFILE_LIST) | sed -E 's/: *## */\t/' | expand -t 12

test:  ## the tests, offline
	@$(WITH_PYTHON) OMP_NUM_THREADS=1 "$$python" -m pytest -n 2 --dist loadscope

lint:  ## ruff and mypy
	@$(WITH_PYTHON) "$$python" -m ruff check .
	@$(WITH_PYTHON) "$$python" -m ruff format --check .
	@$(WITH_PYTHON) "$$python" -m mypy

# As root, usual in containers, JupyterLab starts only when told that this is meant.
lab:  ## JupyterLab on the notebooks
	@$(WITH_PYTHON) "$$python" -m jupyterlab $$([[ $$(id -u) != 0 ]] || echo --allow-root) notebooks

site:  ## notebooks, figures, claims and data as web pages in site/
	@$(WITH_PYTHON) [[ -n $${TEXTPRIV_PYTHON:-} ]] || \
		"$$python" -m pip install -q -c requirements.lock -r requirements-site.lock
	@$(WITH_PYTHON) "$$python" -m tools.site.build

readme:  ## the generated parts of README.md and docs, and REPRODUCING.md
	@$(WITH_PYTHON) "$$python" -m tools.documents

bench:  ## speed against peers' methods
	@$(WITH_PYTHON) "$$python" -m benchmarks

audit:  ## try to break every claim
	@$(WITH_PYTHON) OMP_NUM_THREADS=1 "$$python" -m tools.audits
	@$(WITH_PYTHON) AUDIT_EXAMPLES=10000 "$$python" -m pytest tests/test_audits.py -k fallback
