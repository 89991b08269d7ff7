# Two commands do all: `make demo` and `make test`. Both build what they need into .tools/ (git-ignored).
SHELL := /bin/bash
export CARGO_TERM_COLOR ?= auto

.PHONY: help demo test chaos lint rules crds chart tools build clean-tools

help:
	@printf '%s\n' \
	  'make demo    the main job end to end on an embedded cluster; KEEP=1 leaves it running' \
	  'make test    every suite (ONLY="unit acceptance" runs some)' \
	  'make chaos   publications while everything is killed and cut, on seeds 1 to 3 (CHAOS_SEEDS=1..40 runs more)' \
	  'make lint    rustfmt, clippy, cargo-deny, generated files' \
	  'make rules   which test proves which rule of the protocol and which case from the field' \
	  'make crds    regenerate crds/ and the copies in the chart' \
  'make chart   regenerate config/ and what the chart renders in its tests' \
	  'make tools   build the tools only'

tools:
	@tools/setup demo

build:
	@cargo build --locked --workspace --bins

demo: tools build
	@target/debug/demo

test:
	@tools/setup all
	@tools/test $(ONLY)

chaos: tools build
	@cargo test --locked -p publication-e2e --test chaos

lint:
	@tools/setup deny
	@tools/test lint

rules:
	@tools/rules

crds:
	@cargo run --locked -p publication-operator --bin publication-operator -- crds --out crds
	@cargo run --locked -p publication-operator --bin publication-operator -- crds --out charts/publication-operator/crds

chart:
	@tools/chart update

clean-tools:
	rm -rf .tools
