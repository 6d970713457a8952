# The habits of the project; `make` alone prints them.

.DEFAULT_GOAL := help
.PHONY: help setup tools kernel guest guest-debug debug tidy build demo quick test-programs test schemathesis fuzz check fmt bench profile bench-documents bench-pages screenshots \
	audit package package-test

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))

# All builds name the whole workspace and then what they want of it: so dependencies get the same features
# everywhere and are built once. Debug builds are for tests and contain every feature of the service. `--test tidy` adds
# the dependencies of tests.
EVERYTHING := --workspace --features causerie/otlp
DEBUG := $(EVERYTHING) --test tidy
OPTIMISED = --workspace --profile $(PROFILE)

# `release` takes its time and is what runs in production; `demo` is compiled as quickly as it can be.
PROFILE := release
demo: PROFILE := demo

# Of the service, what is not built unless wanted: `otlp` for traces.
FEATURES :=
WANTED = $(if $(FEATURES),--features $(addprefix causerie/,$(FEATURES)))

# The guest program is built first, by itself, because `causerie` embeds it. It is copied to where the build of `causerie`
# looks for it, and replaced only by one that differs.
GUEST = $(TARGET)/guest/$(PROFILE)/causerie-guest
# The kernel of machines, if it was built or fetched: beside the program, where the service looks for it.
KERNEL_FOLDER := $(TARGET)/kernel
LINK_KERNEL = ln -sfn $(KERNEL_FOLDER) $(1)/causerie-kernel
GUEST_DEBUG := $(TARGET)/guest/debug/causerie-guest

# The tests of the interface that run a second time, on PostgreSQL and with machines in the sandbox: those that depend on the
# database or on machines.
ON_POSTGRES := package(e2e) & (binary(kills) | test(=the_interface_holds) | (binary(suite) & test(/^(accounts|additions|authentication|chats|commands|crash|hostile|servers|streams|streams_resumed|vm|waiting)::/)))

# The tests that run on virtual machines, whose processor is emulated where there is no KVM: slowly, so few of them.
ON_QEMU := package(e2e) & binary(suite) & (test(/^vm::/) | test(=crash::an_answer_outlives_its_machine) | test(=crash::effectful_tool_is_not_run_twice))

# The environment of tests that drive the built binary: on the kernel that `make kernel` has left, or the one that is named.
KERNEL = $(or $(CAUSERIE_MACHINE_KERNEL),$(wildcard $(TARGET)/kernel/linux))
TESTED = CAUSERIE_GUEST=$(GUEST_DEBUG) CAUSERIE_BIN=$(TARGET)/debug/causerie $(addprefix CAUSERIE_MACHINE_KERNEL=,$(KERNEL))
# Most tests wait most of the time, for machines, browsers and clocks: twice as many as there are processors.
export NEXTEST_TEST_THREADS ?= $(shell expr $$(nproc) \* 2)
# The random kills of both runs: two hundred.
KILLS_POSTGRES := 40
KILLS_SQLITE := 160
# Which machine drivers run here: a test whose driver does not is named at the end, or fails where CAUSERIE_EXPECT_DRIVERS
# lists the driver.
DRIVERS := $(TARGET)/debug/examples/drivers

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the Debian packages that are missing (as root or by sudo)
	@sh tools/setup.sh packages kernel

tools: # What the tests need besides
	@sh tools/setup.sh packages kernel nextest python browser node

kernel: ## Build the kernel of machines from Debian's source of Linux (minutes; once)
	@sh tools/setup.sh kernel-build
	sh tools/kernel.sh $(KERNEL_FOLDER)

guest: ## Build the guest program: a static program that runs in the accounts' machines
	$(CARGO) build $(OPTIMISED) --bin causerie-guest
	@cmp -s $(TARGET)/$(PROFILE)/causerie-guest $(GUEST) || install -D $(TARGET)/$(PROFILE)/causerie-guest $(GUEST)

guest-debug:
	$(CARGO) build $(DEBUG) --bin causerie-guest
	@cmp -s $(TARGET)/debug/causerie-guest $(GUEST_DEBUG) || install -D $(TARGET)/debug/causerie-guest $(GUEST_DEBUG)

debug: guest-debug ## Build target/debug/causerie, which the tests of the built service use
	CAUSERIE_GUEST=$(GUEST_DEBUG) $(CARGO) build $(DEBUG) --bin causerie
	@$(call LINK_KERNEL,$(TARGET)/debug)

build: guest ## Build target/release/causerie with the guest program in it
	CAUSERIE_GUEST=$(GUEST) $(CARGO) build $(OPTIMISED) $(WANTED) --bin causerie
	@$(call LINK_KERNEL,$(TARGET)/$(PROFILE))

demo: setup build ## Build, then ask a question about real documents; needs no key and no configuration
	$(TARGET)/demo/causerie demo

test-programs: guest-debug
	CAUSERIE_GUEST=$(GUEST_DEBUG) $(CARGO) build $(EVERYTHING) --all-targets

test: tools test-programs ## Run every test; before that some on PostgreSQL with machines in the sandbox, and some on virtual machines
	@rm -rf $(TARGET)/drivers
	@$(call LINK_KERNEL,$(TARGET)/debug)
	$(TESTED) CAUSERIE_TEST_DATABASE=postgres KILLS=$(KILLS_POSTGRES) CAUSERIE_MACHINE_DRIVER=sandbox \
		$(CARGO) nextest run $(EVERYTHING) -E '$(ON_POSTGRES)'
	if $(TESTED) $(DRIVERS) try qemu; then \
		$(TESTED) CAUSERIE_MACHINE_DRIVER=qemu $(CARGO) nextest run $(EVERYTHING) -j1 -E '$(ON_QEMU)'; \
	else \
		$(TESTED) $(CARGO) nextest list $(EVERYTHING) --message-format oneline -E '$(ON_QEMU)' | $(TESTED) $(DRIVERS) skip qemu; \
	fi
	$(TESTED) KILLS=$(KILLS_SQLITE) CAUSERIE_PYTHON=$(TARGET)/python CAUSERIE_NODE=$(TARGET)/node \
		$(CARGO) nextest run $(EVERYTHING); status=$$?; $(DRIVERS) summary; exit $$status

# What needs neither a database server nor a browser nor a virtual machine.
QUICK := kind(lib) | kind(bin) | (package(store) & binary(suite) & test(/sqlite::|^coverage::/)) | \
	(package(e2e) & binary(suite) & test(=chats::conversation_continues_with_history))

# Lints of the build for tests, and of the service as it is built by default. The guest program is the one of debug builds, if
# there is one: with another, the service would be built again.
LINT = $(addprefix CAUSERIE_GUEST=,$(shell ls $(GUEST_DEBUG) 2>/dev/null)) sh -c '\
	$(CARGO) clippy $(EVERYTHING) --all-targets -- -D warnings && $(CARGO) clippy --workspace --bin causerie -- -D warnings'

tidy: ## Format and the conventions of the tree, in seconds
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) build $(DEBUG) --bin xtask
	$(TARGET)/debug/xtask tidy

quick: debug tidy ## The checks of every few minutes: format, lints, tidy, unit tests, the store on SQLite, one question
	$(LINT)
	$(TESTED) $(CARGO) nextest run $(EVERYTHING) --lib --bins --test suite -E '$(QUICK)'

schemathesis: tools debug ## Try the interface from its schema for half an hour, or SCHEMA_SECONDS
	SCHEMA_SECONDS=$(or $(SCHEMA_SECONDS),1800) $(TESTED) CAUSERIE_PYTHON=$(TARGET)/python \
		$(CARGO) test $(EVERYTHING) --test schema -- --nocapture schemathesis_finds_only_documented_answers

fuzz: ## Fuzz each target for ten minutes, or FUZZ_SECONDS; FUZZ_TARGETS names some of them
	@sh tools/setup.sh fuzz
	sh tools/fuzz.sh $(or $(FUZZ_SECONDS),600) $(FUZZ_TARGETS)

check: tidy ## Formatting, lints, tidy, licences and spelling (the first run builds cargo-deny and typos: minutes)
	$(LINT)
	@sh tools/setup.sh deny typos
	$(CARGO) deny --offline check bans licenses sources
	typos

package: setup ## Pack the release into target/packages: .deb, tarball, OCI image, SBOM; ARCH=arm64 to cross build
	@sh tools/setup.sh package $(if $(filter-out $(shell dpkg --print-architecture),$(filter arm64,$(ARCH))),package-arm64)
	sh tools/package.sh $(ARCH)

package-test: ## Try the .deb of target/packages in a new Debian with systemd, from installation to purge, and the container (as root)
	@sh tools/setup.sh package
	sh tools/package-check.sh
	sh tools/package-test.sh

audit: ## Known weaknesses of the dependencies (asks the advisory database over the network)
	@sh tools/setup.sh deny
	$(CARGO) deny check advisories

fmt: ## Format everything
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml

screenshots: debug ## Make the pictures of docs/screenshots
	@sh tools/setup.sh browser screenshots
	$(CARGO) build $(DEBUG) --example screenshots
	CAUSERIE_BIN=$(TARGET)/debug/causerie $(TARGET)/debug/examples/screenshots docs/screenshots

bench: build ## Measure: start, memory, latency from model to reader, kills; takes minutes on an idle machine
	@sh tools/setup.sh bench
	$(CARGO) build $(OPTIMISED) --bin bench --example probe_agent
	CAUSERIE_BIN=$(TARGET)/release/causerie CAUSERIE_GUEST=$(GUEST) $(TARGET)/release/bench

SCENARIO := markdown-20 markdown-400
profile: guest ## Profile the service under scenarios of the bench, SCENARIO, by part (docs/performance.md)
	@sh tools/setup.sh bench profile
	RUSTFLAGS="-C force-frame-pointers=yes" CAUSERIE_GUEST=$(GUEST) $(CARGO) build --workspace --profile profiling --bin causerie --bin bench
	CAUSERIE_GUEST=$(GUEST) python3 tools/profile.py $(TARGET)/profiling/causerie $(TARGET)/profiling/bench $(SCENARIO)

bench-pages: build ## Measure the web application in headless Chromium: a slow phone, and an answer of two hundred pages
	@sh tools/setup.sh browser
	$(CARGO) build $(OPTIMISED) --example bench_pages
	CAUSERIE_BIN=$(TARGET)/release/causerie $(TARGET)/release/examples/bench_pages

DOCUMENTS := $(TARGET)/bench-documents
bench-documents: ## Measure the built-in reader on public documents, which are fetched (docs/reader.md)
	sh crates/models/examples/bench_documents/fetch.sh $(DOCUMENTS)/files
	$(CARGO) build $(DEBUG) --example bench_documents
	$(TARGET)/debug/examples/bench_documents $(DOCUMENTS)/files $(DOCUMENTS)/index
	sh crates/models/examples/bench_documents/fetch.sh $(DOCUMENTS)/fresh fresh_sources.tsv
	$(TARGET)/debug/examples/bench_documents $(DOCUMENTS)/fresh $(DOCUMENTS)/fresh-index fresh
	sh crates/models/examples/bench_documents/fetch.sh $(DOCUMENTS)/further further_sources.tsv
	$(TARGET)/debug/examples/bench_documents $(DOCUMENTS)/further $(DOCUMENTS)/further-index further apart
	sh crates/models/examples/bench_documents/fetch.sh $(DOCUMENTS)/later later_sources.tsv
	$(TARGET)/debug/examples/bench_documents $(DOCUMENTS)/later $(DOCUMENTS)/later-index later
	python3 crates/models/examples/bench_documents/public_sets.py $(DOCUMENTS)/public
	for set in manuals articles xquad-0 xquad-1; do $(TARGET)/debug/examples/bench_documents $(DOCUMENTS)/public/$$set \
		$(DOCUMENTS)/public/$$set-index questions=$(DOCUMENTS)/public/$$set.tsv || exit 1; done
