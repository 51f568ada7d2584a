# make quickstart   set up, train on the embedded world, print the metrics and three menus
# make test         set up, run the tests
# Both need Python >= 3.11 and nothing else; PYTHON=python3.12 chooses another one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: quickstart test clean FORCE

quickstart: $(STAMP)
	@$(BIN) -m spm_jax.quickstart

test: $(STAMP)
	@$(BIN) -m pytest -q

# The stamp is the last thing that an installation writes. Without it, or with an interpreter that no longer starts,
# the environment is half made and is made again.
ifneq ($(shell test -e $(STAMP) && $(BIN) -c 'print("starts")' 2>/dev/null),starts)
$(STAMP): FORCE
endif

$(STAMP): setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
	  v >= (3, 11) or sys.exit("spm_jax needs Python >= 3.11, and $(PYTHON) is %d.%d" % v[:2])' \
	  || { echo "Cannot use '$(PYTHON)'. Name a Python >= 3.11: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@rm -f $(STAMP)
	@echo "Setting up $(VENV) ($$($(PYTHON) --version)); the first time takes a minute or two ..."
	@$(PYTHON) -m venv --clear $(VENV) \
	  || { echo "The venv module is missing or incomplete; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache
	find spm_jax tests experiments -name __pycache__ -type d -prune -exec rm -rf {} +
