# Entry points; `make help` lists them. What they do is in scripts/.
SHELL := /bin/bash
.DEFAULT_GOAL := build

.PHONY: help build run top test test-full test-unit test-kernels test-e2e test-browser bench generate lint fuzz setup clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/make \1\t\2/' | expand -t 20

build: ## build the collector build/otelcol-hostprofiles and build/hostprofiles-top
	@scripts/build.sh

run: ## profile this host, serve the live flame graph and print the hottest functions
	@scripts/run.sh

top: ## the hottest functions in this terminal, of the collector that `make run` started; ARGS are its options
	@scripts/build.sh top >/dev/null
	@build/hostprofiles-top $${FLAMEGRAPH_ENDPOINT:+-url "$$FLAMEGRAPH_ENDPOINT"} $(ARGS)

test: ## every check that a change must pass
	@scripts/test.sh

test-full: ## the same with the race detector, longer fuzzing and other kernels
	@scripts/test.sh full

test-unit: ## the Go tests alone
	@scripts/test.sh unit

test-e2e: ## the built collector, end to end on this host
	@scripts/test.sh e2e

test-browser: ## the live view in a browser, against the built collector
	@scripts/test.sh browser

test-kernels: ## the programs on other kernels, in virtual machines
	@scripts/test.sh kernels

bench: ## measure what profiling costs
	@scripts/bench.sh

generate: ## everything that is generated: BPF objects, metadata of components, the page of the live view
	@scripts/setup.sh generate
	@scripts/generate.sh

lint: ## formatting and static analysis
	@scripts/setup.sh lint
	@scripts/lint.sh

fuzz: ## every fuzz target for FUZZTIME (20s)
	@FUZZTIME=$${FUZZTIME:-20s} scripts/fuzz.sh

setup: ## install what the other targets need (Debian, as root)
	@scripts/setup.sh

clean: ## remove what was built
	rm -rf build .cache
