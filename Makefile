# Two commands do everything: `make book` builds the site, `make test` checks all there is to check.
# Readers run the chapters with `make lab`. Each makes its own environment in .venv when there is none.
# `make help` lists the rest.
#
# uv makes the environment if it's on the path; otherwise venv and pip do. On Linux both install torch's build for
# GPUs, several gigabytes. Without a GPU: `UV_TORCH_BACKEND=cpu make lab`, or let pip's own settings (`pip config`)
# name an index that has the small build.

PYTHON ?= python3
PORT   ?= 8000
VENV   := .venv
PY     := $(VENV)/bin/python
SITE   := _build/html

# A cold run downloads; a warm one only looks at these stamps.
MADE      := $(VENV)/.made
WITH_SITE := $(VENV)/.with-site
WITH_ALL  := $(VENV)/.with-all
ASSETS    := node_modules/.package-lock.json
CHECKERS  := node_modules/axe-core/package.json

# Tests run beside each other; one thread each also keeps sums in one order.
test test-all check coverage: export OMP_NUM_THREADS ?= 1
# Compiled files of a package are written when it is first imported, and only then. There they must be:
# hundreds of processes start here, and torch alone takes each of them two seconds more without.
test test-all check coverage: export PYTHONDONTWRITEBYTECODE :=
UV  := $(shell command -v uv 2> /dev/null)
PIP := $(if $(UV),"$(UV)" pip install --quiet --python $(PY),$(PY) -m pip --disable-pip-version-check install --quiet --quiet --no-compile)

.DEFAULT_GOAL := help
.PHONY: help book lab pdf student assignment serve check test test-all lint format coverage notebooks weights bench gpu repository release lock next clean
.DELETE_ON_ERROR:

help:  ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

book: $(WITH_SITE) $(ASSETS)  ## Build the site (the first time about a minute, then seconds)
	@$(BUILD) > /dev/null
	@echo "The book: file://$(CURDIR)/$(SITE)/index.html"
	@echo "      or: make serve, then http://localhost:$(PORT)"

BUILD = $(VENV)/bin/jupyter-book build . --warningiserror --nitpick --keep-going --quiet

lab: book $(WITH_ALL)  ## Open the notebooks in JupyterLab: copies for you to change, in lab/
	@$(PY) -c "import socket; socket.create_server(('127.0.0.1', $(PORT)))" 2> /dev/null \
		|| { echo "Port $(PORT) is taken, and links in lab/ lead there: free it, or make lab PORT=8001"; exit 1; }
	@mkdir -p lab
	@for path in $(SITE)/student/*.ipynb; do copy="lab/$${path##*/}"; \
		[ -e "$$copy" ] || sed 's#](\.\./#](http://localhost:$(PORT)/#g' "$$path" > "$$copy"; done
	@$(PY) -m http.server --directory $(SITE) --bind 127.0.0.1 $(PORT) > /dev/null 2>&1 & \
		trap "kill $$! 2> /dev/null" EXIT INT; $(VENV)/bin/jupyter lab lab  # their links lead to the site

pdf: book  ## Print the book with Chromium or Chrome: _build/pdf/*.pdf, linked at the foot of each page
	@$(PY) _ext/pdf.py

student: book  ## Write the student's edition: notebooks without solutions, in _build/html/student
	@echo "The student's edition: $(CURDIR)/$(SITE)/student"

# Which chapter is asked for is known before the book is built.
ifneq ($(filter assignment,$(MAKECMDGOALS)),)
CHAPTER := $(basename $(notdir $(wildcard chapters/$(CH)_*.ipynb chapters/0$(CH)_*.ipynb)))
$(if $(filter 1,$(words $(CHAPTER))),,$(error CH must be the number of a chapter, as in make assignment CH=5; it is '$(CH)'))
endif

assignment: book  ## Write a chapter's exercises without solutions, to hand out, and for nbgrader (CH=5)
	@echo "To hand out:  $(CURDIR)/$(SITE)/assignment/assignment_$(CHAPTER).ipynb"
	@echo "For nbgrader: $(CURDIR)/_build/nbgrader, where: nbgrader generate_assignment $(CHAPTER)"

serve: book  ## Build, then serve the site on this machine (PORT=8000)
	@echo "Serving on http://localhost:$(PORT)  (Ctrl-C stops it)"
	@$(PY) -m http.server --directory $(SITE) --bind 127.0.0.1 $(PORT)

# Two commands at once, for two processors where each has work for one: the second is seen while it runs,
# the first when both have ended, and both must succeed.
define both
	@mkdir -p .cache
	@{ $(1); } > .cache/beside.log 2>&1 & job=$$!; { $(2); }; second=$$?; \
		wait $$job; first=$$?; cat .cache/beside.log; exit $$((first || second))
endef

check: $(WITH_ALL) $(CHECKERS)  ## Answer in two minutes: style, types, the gate, unit tests that touch what you changed
	$(call both,$(LINT) && $(PY) tests/notebooks/gate.py,$(CHECK_UNITS))

# pytest ends with 5 where all that it was named is slow.
CHECK_UNITS = $(PYTEST) -m "not slow" $$($(PY) tests/changed.py) || [ $$? = 5 ]

# Notebooks take most of the time. What else there is comes before them, on one of two processors.
test: $(WITH_ALL) $(CHECKERS)  ## Check style and types, run every chapter, test the library and the built site
	@echo "== style and types; the book; tests of the library; tests of the site"
	@echo "   beside it, in what time that leaves: every chapter"
	$(call both,nice -n 19 $(PY) tests/notebooks/strict.py,$(LINT) && $(BOOK) && $(LIBRARY) && $(PAGES))

LINT = $(MAKE) --no-print-directory lint
BOOK = $(MAKE) --no-print-directory book
LIBRARY = $(PYTEST) -m "not slow" tests/test_project.py tests/unit tests/notebooks transformer_lib
PAGES = $(PYTEST) -m "not slow" tests/site
PYTEST = $(PY) -m pytest --quiet

test-all: $(WITH_ALL) $(CHECKERS)  ## Run the tests that make test leaves out: those marked slow
	@echo "== the book, its print; tests of the library; tests of the site"
	@echo "   beside it, in what time that leaves: some chapters in a new environment"
	$(call both,nice -n 19 $(PYTEST) -m slow tests/notebooks,$(BOOK) && $(PRINT) && $(SLOW) tests/unit && $(SLOW) tests/site)

# Without a browser there is no print, and its tests are skipped.
PRINT = { $(MAKE) --no-print-directory pdf || [ "$$CI" != true ]; }
SLOW = $(PYTEST) $(TWO) -m slow
TWO = -n 2 --dist worksteal

weights: $(WITH_ALL)  ## Fetch the two published models that chapters open, 180 MB; kept in your cache folder
	@$(PY) -c "from transformer_lib.pretrained import published as p; [p.published_folder(n, download=True, hub=False) for n in p.PUBLISHED]"

lint: $(WITH_ALL) $(CHECKERS)  ## Check style and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --quiet --check transformer_lib tests experiments benchmarks
	@$(PRETTIER) --check '$(SCRIPTS)'
	@$(PY) -m pyright --pythonpath $(PY)

format: $(WITH_ALL) $(CHECKERS)  ## Format Python, JavaScript and style sheets
	@$(PY) -m ruff format --quiet transformer_lib tests experiments benchmarks
	@$(PRETTIER) --write '$(SCRIPTS)'

PRETTIER = PATH="$(CURDIR)/$(VENV)/bin:$$PATH" node node_modules/prettier/bin/prettier.cjs --log-level=warn
SCRIPTS = {_ext,_static,benchmarks,tests,transformer_lib/figures}/**/*.{js,mjs,css}

coverage: $(WITH_ALL)  ## Run the unit tests, half as long again, and say which lines of the library they leave out
	@rm -rf .cache/coverage
	@$(PY) -m coverage run -m pytest --quiet $(TWO) tests/unit
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

notebooks: $(WITH_ALL)  ## Run every chapter from the top and store its outputs
	@$(PY) tests/notebooks/execute.py

bench: $(WITH_ALL)  ## Measure training and decoding beside other models, and how soon pages are there
	@$(PY) benchmarks/speed.py
	@$(PY) benchmarks/pages.py

gpu: $(WITH_ALL)  ## On a GPU: measure it for chapter 17, train the page's translator (SMALL=1 tries both on a CPU)
	@$(PY) benchmarks/compiled.py $(if $(SMALL),cpu,cuda --output results/gpu.json)
	@$(PY) tests/notebooks/$(if $(SMALL),strict.py,execute.py --timeout 20000) chapters/real_translator.ipynb

repository: $(MADE)  ## Write address, authors or edition everywhere (URL=https://… AUTHORS="A Name, Another" EDITION=1.1.0)
	@$(PY) _ext/repository.py $(if $(URL),--url "$(URL)") $(if $(AUTHORS),--authors "$(AUTHORS)") $(if $(EDITION),--edition "$(EDITION)")

release: $(WITH_ALL) $(CHECKERS)  ## Check this edition, build its wheel and its site, tag it, and say what to push
	@$(PY) _ext/release.py
	@$(LINT) && $(PY) tests/notebooks/gate.py
	@$(BOOK)
	@$(PY) _ext/release.py --tag

lock: $(MADE)  ## Resolve requirements*.in anew (all platforms, Python 3.10 and up)
	@$(PIP) uv
	@$(COMPILE) requirements.in --output-file requirements.txt
	@$(COMPILE) requirements-site.in --output-file requirements-site.txt --constraints requirements.txt

# The lock fits every build of torch, whichever this shell asks for.
COMPILE = env -u UV_TORCH_BACKEND $(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-annotate \
	--custom-compile-command "make lock" --config-file requirements.toml

next: $(WITH_ALL) $(CHECKERS)  ## Build the book with the next Sphinx, and look at it with the site's quick tests
	@PIP_NO_WARN_CONFLICTS=0 $(PIP) --upgrade --target .cache/next -r requirements-next.in  # .venv keeps its own
	@export PYTHONPATH="$(CURDIR)/.cache/next" BOOK_HTML=_build/next/_build/html; \
		$(BUILD) --path-output _build/next > /dev/null && $(PAGES)

clean:  ## Remove what was built: the site, the environment, the fetched assets
	rm -rf _build $(VENV) node_modules .cache .pytest_cache .ruff_cache build *.egg-info

# ---------------------------------------------------------------------------------------------------

# A Python without ensurepip (Debian's, say) makes no environment of its own: virtualenv, fetched into
# a folder that `make clean` removes, makes one for it.
$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and f"Python 3.10 or later is needed; this is {sys.version.split()[0]}. Try: make PYTHON=python3.12 …")'
	@echo "Making an environment in $(VENV)"
	@$(if $(UV),"$(UV)" venv --quiet --seed --allow-existing --python $(PYTHON) $(VENV) ||) $(PYTHON) -m venv $(VENV) > /dev/null 2>&1 \
		|| { rm -rf $(VENV) \
		&& $(PYTHON) -m pip install --quiet --quiet --target .cache/virtualenv virtualenv \
		&& PYTHONPATH=.cache/virtualenv $(PYTHON) -m virtualenv --quiet $(VENV); }
	@touch $@

# --no-deps: the lock is complete, so there is nothing to resolve.
$(WITH_SITE): $(MADE) requirements-site.txt
	@echo "Installing what builds the site"
	@$(PIP) --no-deps -r requirements-site.txt
	@touch $@

# Here pip does resolve: which packages torch needs depends on the build of torch that is at hand.
$(WITH_ALL): $(WITH_SITE) requirements.txt pyproject.toml
	@echo "Installing what the library and its tests need (on Linux torch may be gigabytes: see the README)"
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(ASSETS): package.json package-lock.json | $(WITH_SITE)
	@echo "Fetching fonts and style sheets"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm ci --omit=dev --loglevel=error > /dev/null
	@touch $@

# What looks at pages, scripts and style sheets and is not part of them; npm replaces the whole folder.
$(CHECKERS): package.json package-lock.json | $(WITH_SITE)
	@echo "Fetching fonts, style sheets and what checks them"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm ci --loglevel=error > /dev/null
	@touch $@ $(ASSETS)
