# Two commands do all: `make demo` and `make test`. Both build what they need into .tools/ (git-ignored).
SHELL := /bin/bash
export CARGO_TERM_COLOR ?= auto

.PHONY: help demo test acceptance e2e-kind chaos soak mutants lint rules crds chart tools build clean-tools

help:
	@printf '%s\n' \
	  'make demo        the main job end to end on an embedded cluster; KEEP=1 leaves it running' \
	  'make test        every suite (ONLY="unit acceptance" runs some)' \
	  'make acceptance  every scenario and field case with its result, on both engine lines; target/acceptance-report.json' \
	  'make e2e-kind    the main scenarios on pods of a kind cluster (untested: needs a registry)' \
	  'make chaos       publications while everything is killed and cut, on seeds 1 to 3 (CHAOS_SEEDS=1..40 runs more)' \
	  'make soak        hours of it: large model configurations, 200,000 simulated runs, chaos on seeds 1 to 40' \
	  'make mutants     which changes of the protocol crate no test notices (ONLY="authority.rs" tries one file)' \
	  'make lint        rustfmt, clippy, cargo-deny, generated files' \
	  'make rules       which test proves which rule of the protocol and which case from the field' \
	  'make crds        regenerate crds/ and the copies in the chart' \
	  'make chart       regenerate config/ and what the chart renders in its tests' \
	  'make tools       build the tools only'

tools:
	@tools/setup demo

build:
	@cargo build --locked --workspace --bins

demo: tools build
	@target/debug/demo

test:
	@tools/setup all
	@tools/test $(ONLY)

acceptance: tools
	@tools/test build protocol operator acceptance report

e2e-kind:
	@tools/e2e-kind

chaos: tools build
	@cargo test --locked -p publication-e2e --test chaos

# The first that fails ends it; each can be run alone (docs/proof.md).
soak: tools build
	MODEL=soak RUSTFLAGS='--cfg publication_model' cargo test --locked --profile model --target-dir target/model \
	  -p publication-protocol --lib model::tests::every -- --nocapture
	SEEDS=$(or $(SEEDS),200000) cargo test --locked --profile model -p publication-protocol --test simulation -- --nocapture
	CHAOS_SEEDS=$(or $(CHAOS_SEEDS),1..41) cargo test --locked -p publication-e2e --test chaos

mutants:
	@tools/setup mutants
	@tools/mutants $(ONLY)

lint:
	@tools/setup all
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
