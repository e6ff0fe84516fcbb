# A thin front for meson and ninja. `make help` lists the targets.
#
# What stands behind "settings:" is the end of that list.
#
# settings: CC=clang        another compiler, as in `make CC=clang`
# settings: PREFIX=/usr     where install goes (/usr/local); DESTDIR= in front of it, for packages
# settings: LIBDIR=lib64    where libraries go below PREFIX (lib)
# settings: FUZZ_SECONDS=30 for each fuzz target
# settings: SOAK_RUNS=10000 runs of `make soak`
# settings: LOAD_SECONDS=600 of `make load`

ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
VERSION := $(shell sed -n "s/^    version: '\(.*\)',/\1/p" meson.build)
BUILD ?= build
FUZZ_SECONDS ?= 30
SOAK_RUNS ?= 10000
PYTHON := /usr/bin/python3
export CC FUZZ_SECONDS SOAK_RUNS

# The second program, once its main file is there.
ENGINE := $(if $(wildcard src/broker/main.c),bailey-engine)

.PHONY: all build run test test-clients test-docker test-sanitize test-distros test-container \
	test-browser check-style check-clients format coverage bench bench-check \
	fuzz soak load install install-files deb clean help

all: build

build: ## build/bailey, one static file, build/bailey-engine for sessions and servers, libbailey for C
	@tools/setup run
	@TARGETS="bailey $(ENGINE) libbailey" tools/build build

run: build ## runs agent-written Python in boxes: plain, then with the data stack on a real table
	@tools/run-example build/bailey

test: ## all tests, built with gcc; clang must compile everything too
	@tools/setup test
	@tools/build build
	@CC=clang tools/build build-clang
	@TARGETS="bailey $(ENGINE)" tools/build build-fault -Dfault=true -Dtest_rows=true -Dtest_provider=true
	@BAILEY_FAULT=$(CURDIR)/build-fault/bailey BAILEY_PROVIDER=$(CURDIR)/build-fault/bailey \
		tools/run-tests build

test-docker: ## the Docker runtime and the conformance suite on each runtime, with a private dockerd
	@tools/setup test
	@tools/build build
	@tools/run-tests build --docker

test-sanitize: ## units, scenario, conformance and escape under Address- and UBSanitizer
	@tools/setup test
	@CC=clang tools/build build-asan -Db_sanitize=address,undefined -Db_lundef=false
	@tools/run-tests build-asan --sanitize --suites scenario,conformance,escape

test-distros: ## make run, the README, a smoke and the unit tests in fresh Debian 12 and 13 systems; FULL=1: all tests
	@tools/test-distros

test-container: ## make run and make test in a plain container (docker run without options); QUICK=1: fewer tests
	@tools/test-container

test-browser: build ## the pages of the server in a real browser (Chromium)
	@tools/setup browser
	@BAILEY=$(CURDIR)/build/bailey $(PYTHON) -m pytest -q -p no:cacheprovider tests/browser

check-clients: build ## builds the Python and TypeScript packages and checks them as their registries would
	@tools/check-clients

test-clients: build ## the earlier versions of OpenAI's, E2B's and Scalebox's clients and of our own SDKs, too
	@tools/setup test
	@BAILEY_OPENAI_ROWS="openai-py-1 openai-py-2 openai-py-3 openai-py openai-js-4 openai-js-5 openai-js-6 openai-js" BAILEY_CLIENT_MATRIX=1 \
		BAILEY=$(CURDIR)/build/bailey $(PYTHON) -m pytest -q -p no:cacheprovider \
		tests/interop/test_openai_clients.py tests/interop/test_e2b_matrix.py \
		tests/interop/test_scalebox.py tests/interop/test_sdk_matrix.py

check-style: ## format, include rule, documents; reports long files and functions
	@tools/setup test
	@tools/check-style

format: ## formats the C sources
	@command -v clang-format-14 >/dev/null || { echo "make format: clang-format-14 is not installed" \
		"(Debian 12 and Ubuntu 22.04 have it as a package; other versions format differently)" >&2; exit 1; }
	@find src include tests fuzz tools bench examples \( -name '*.c' -o -name '*.h' \) -print0 2>/dev/null | \
		xargs -0 clang-format-14 -i

coverage: ## lines executed by all tests, in children and boxes too; fails under 80 %
	@tools/setup test
	@tools/coverage

bench: build ## compares with bubblewrap, docker and plain programs; writes bench/results.md
	@tools/setup bench
	@bench/run

bench-check: build ## ten seconds: whether calls are much slower beside fork+exec and bubblewrap than they were
	@tools/setup test
	@$(PYTHON) bench/check.py

fuzz: ## each fuzz target for FUZZ_SECONDS with libFuzzer and sanitizers
	@tools/setup test
	@tools/fuzz

soak: build ## SOAK_RUNS runs, then looks for leaks
	@tools/setup test
	@BAILEY=$(CURDIR)/build/bailey $(PYTHON) tests/fault/soak.py

load: build ## 1,000 clients and 500 streams at once for LOAD_SECONDS, then one attacker at a time
	@tools/setup test
	@BAILEY=$(CURDIR)/build/bailey $(PYTHON) tests/load/load.py
	@BAILEY=$(CURDIR)/build/bailey $(PYTHON) tests/load/stall.py

install: build ## programs, library, header, man pages, completions, the container profile, below DESTDIR/PREFIX
	@$(MAKE) --no-print-directory install-files

# Of what is in BUILD already.
install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(DESTDIR)$(PREFIX)/libexec \
		$(DESTDIR)$(PREFIX)/share/bailey $(DESTDIR)$(PREFIX)/share/man/man3 \
		$(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/$(LIBDIR)/pkgconfig
	install -s -m 755 $(BUILD)/bailey $(DESTDIR)$(PREFIX)/bin/bailey
	for program in $(ENGINE); do \
		install -s -m 755 $(BUILD)/$$program $(DESTDIR)$(PREFIX)/libexec/$$program || exit 1; \
	done
	$(BUILD)/bailey man > $(DESTDIR)$(PREFIX)/share/man/man1/bailey.1
	commands=$$($(BUILD)/bailey help --names) && for command in $$commands; do \
		$(BUILD)/bailey man $$command > $(DESTDIR)$(PREFIX)/share/man/man1/bailey-$$command.1 || exit 1; \
	done
	$(BUILD)/bailey completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bailey
	$(BUILD)/bailey completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bailey
	$(BUILD)/bailey completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bailey.fish
	install -m 644 include/bailey.h $(DESTDIR)$(PREFIX)/include/bailey.h
	install -m 644 docs/man/bailey.3 $(DESTDIR)$(PREFIX)/share/man/man3/bailey.3
	install -s -m 644 $(BUILD)/src/lib/libbailey.so.$(VERSION) $(DESTDIR)$(PREFIX)/$(LIBDIR)/
	ln -sf libbailey.so.$(VERSION) $(DESTDIR)$(PREFIX)/$(LIBDIR)/libbailey.so.0
	ln -sf libbailey.so.0 $(DESTDIR)$(PREFIX)/$(LIBDIR)/libbailey.so
	install -m 644 $(BUILD)/src/lib/libbailey.a $(DESTDIR)$(PREFIX)/$(LIBDIR)/
	strip --strip-debug $(DESTDIR)$(PREFIX)/$(LIBDIR)/libbailey.a
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' deploy/bailey.pc.in \
		> $(DESTDIR)$(PREFIX)/$(LIBDIR)/pkgconfig/bailey.pc
	install -m 644 deploy/docker/seccomp.json $(DESTDIR)$(PREFIX)/share/bailey/docker-seccomp.json

deb: build ## a Debian package, build/bailey_VERSION_ARCH.deb
	@tools/deb $(BUILD)

clean: ## removes everything that was built
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16
	@sed -n 's/^# settings: //p' Makefile
