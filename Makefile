# The habits of the project; `make` alone prints them.

.DEFAULT_GOAL := help
.PHONY: help setup tools agent agent-debug build demo test check fmt bench audit

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))

# The agent is linked statically, because the machine it runs in brings no libraries for it. Cargo may later
# leave another build under the same name, so the static one is kept apart; it is only replaced by one that
# differs, so that `causerie`, in which it is embedded, is not built again for nothing.
AGENT := $(TARGET)/agent/release/causerie-agent
AGENT_DEBUG := $(TARGET)/agent/debug/causerie-agent
STATIC := -C target-feature=+crt-static

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the Debian packages that are missing (as root or by sudo)
	@sh tools/setup.sh packages

tools: # What the tests need besides
	@sh tools/setup.sh packages nextest

agent: ## Build the agent: a static program that runs in the accounts' machines
	$(CARGO) rustc --release --package agent --bin causerie-agent -- $(STATIC)
	@cmp -s $(TARGET)/release/causerie-agent $(AGENT) || install -D $(TARGET)/release/causerie-agent $(AGENT)

agent-debug:
	$(CARGO) rustc --package agent --bin causerie-agent -- $(STATIC) -C strip=debuginfo
	@cmp -s $(TARGET)/debug/causerie-agent $(AGENT_DEBUG) || install -D $(TARGET)/debug/causerie-agent $(AGENT_DEBUG)

build: agent ## Build target/release/causerie with the agent in it
	CAUSERIE_AGENT=$(AGENT) $(CARGO) build --release --package causerie

demo: setup build ## Build, then ask a question about real documents; needs no key and no configuration
	$(TARGET)/release/causerie demo

# One build of everything, so that the binaries that tests drive share their dependencies with the tests.
test: tools agent-debug ## Run every test
	CAUSERIE_AGENT=$(AGENT_DEBUG) $(CARGO) build --workspace --all-targets
	CAUSERIE_AGENT=$(AGENT_DEBUG) CAUSERIE_BIN=$(TARGET)/debug/causerie $(CARGO) nextest run --workspace

check: ## Formatting, lints, tidy, licences and spelling (the first run builds cargo-deny and typos: minutes)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy
	@sh tools/setup.sh deny typos
	$(CARGO) deny --offline check bans licenses sources
	typos

audit: ## Known weaknesses of the dependencies (asks the advisory database over the network)
	@sh tools/setup.sh deny
	$(CARGO) deny check advisories

fmt: ## Format everything
	$(CARGO) fmt --all

bench: build ## Measure: start, memory, latency from model to reader, kills; takes minutes on an idle machine
	CAUSERIE_BIN=$(TARGET)/release/causerie $(CARGO) run --release --package bench
