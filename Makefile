# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export CGO_ENABLED := 0
# Without grpcnotrace, grpc links text/template, whose reflection keeps every method of every type:
# the services would be a third larger. One set of flags everywhere shares the build cache.
export GOFLAGS := -trimpath -tags=grpcnotrace -buildvcs=false
BIN := bin
ASSETS := $(BIN)/test-assets
TOOLS := $(BIN)/tools

# The version of Kubernetes is written once, in go.mod.
KUBE_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' go.mod)
KUBE_MAJOR := $(word 1,$(subst ., ,$(KUBE_VERSION:v%=%)))
KUBE_MINOR := $(word 2,$(subst ., ,$(KUBE_VERSION)))
VERSION ?= $(or $(TAG),$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))
COMMIT := $(shell git rev-parse -q --verify HEAD || echo unknown)
COMMIT_TIME := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
BUILD_DATE := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)

kube_version_flags = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version, \
	-X $(package).gitVersion=$(KUBE_VERSION) -X $(package).gitMajor=$(KUBE_MAJOR) -X $(package).gitMinor=$(KUBE_MINOR) \
	-X $(package).gitTreeState=clean -X $(package).gitCommit=$(COMMIT) -X $(package).buildDate=$(BUILD_DATE))
LDFLAGS := -s -w $(strip $(kube_version_flags)) -X github.com/tripod-k8s/tripod/internal/service.Version=$(VERSION)
GO_BUILD := go build -ldflags "$(LDFLAGS)"

SERVICES := aggregator core extensions search
# Programs of our own that have a module of their own.
OWN_TOOLS := tools/images tools/release
# What strangers may require, without k8s.io/kubernetes, is in modules of its own.
LIBRARIES := internal proto
PACKAGES := ./... $(LIBRARIES:%=github.com/tripod-k8s/tripod/%/...)
# What is built on them as strangers would.
OUTSIDE := apiservice examples/wardle
# Tests are linked without what debuggers need, which halves the time that links take, and without vet, which is part of verify.
GOTESTSUM := $(TOOLS)/gotestsum --format pkgname --hide-summary=skipped
GO_TEST_FLAGS := -vet=off -ldflags='-s -w'
# Replicas, etcd and clients of an integration test share the processors with those of other tests. Up to eight tests that fail, their parts counted,
# are run once more, and the summary names them with both runs; more than eight end the run.
RERUN_FAILS := --rerun-fails=1 --rerun-fails-max-failures=8 --rerun-fails-run-root-test

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Build and run

.PHONY: build
build: ## Build tripod and the services, tripod-aggregator and so on, into bin/.
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/tripod ./cmd/tripod
	@$(foreach service,$(SERVICES),echo '$(BIN)/tripod-$(service)' && $(GO_BUILD) -o $(BIN)/tripod-$(service) ./services/$(service) &&) true

.PHONY: controllers build-controllers
controllers: build-controllers $(BIN)/kwok ## Build what `tripod up --controllers` and `--kwok-nodes` need: tripod-controllers and kwok.
build-controllers:
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/tripod-controllers ./cmd/tripod-controllers

# Where an image is to be pushed belongs to its name: IMAGE_REPOSITORY=ghcr.io/you.
# The default names no registry: nodes find such images only if somebody loaded them.
IMAGE_REPOSITORY ?= localhost/tripod-k8s
pack_images = go run -C tools/images . -repository $(IMAGE_REPOSITORY) -version $(VERSION) -revision $(COMMIT) -created $(COMMIT_TIME)
.PHONY: wardle
wardle: ## Build the example of an API service into bin/wardle.
	@mkdir -p $(BIN)
	hack/alone.sh examples/wardle $(GO_BUILD) -o $(abspath $(BIN))/wardle .

.PHONY: images
images: build ## Pack the binaries into container images, bin/images/NAME.tar (IMAGE_REPOSITORY=localhost/tripod-k8s); the tag is in bin/images/tag.
	$(pack_images) -binaries $(abspath $(BIN)) -output $(abspath $(BIN))/images

.PHONY: up
up: build ## Build, then run Tripod and an etcd on this machine until Ctrl-C (UP_ARGS="--port 7443 ...").
	@exec $(BIN)/tripod up $(UP_ARGS)

.PHONY: clean
clean: ## Remove what was built; data directories stay.
	rm -rf $(BIN) $(DIST) artifacts

##@ Test

.PHONY: test
test: test-unit test-integration ## Run all tests; builds what they need.

.PHONY: test-unit
test-unit: $(TOOLS)/gotestsum $(TOOLS)/helm ## Run the unit tests.
	$(TOOLS)/helm lint --strict --quiet --kube-version $(KUBE_VERSION) deploy/helm/tripod
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) $$(go list $(PACKAGES) | grep -v -e /tripod/test/ $(patsubst ./%,-e '/%$$',$(E2E_TESTS) $(E2E_LONG_TESTS)))
	@$(foreach module,$(OUTSIDE),echo 'go test: $(module)' && hack/alone.sh $(module) go test $(GO_TEST_FLAGS) ./... &&) true
	@$(foreach program,$(OWN_TOOLS),echo 'go test: $(program)' && go test -C $(program) ./... &&) true

# Those that measure shares of load, or keep the machine busy, run alone, one package at a time. The others mostly wait, so more of them run at
# a time than there are processors, those first that take longest.
BUSY_TESTS := ./test/disturb/attacks ./test/disturb/busy ./test/disturb/dataplane ./test/disturb/faults ./test/disturb/hostile ./test/disturb/linearizability ./test/disturb/storages
LONG_TESTS := ./test/compare/identity ./test/compare/encryption ./test/compare/audit ./test/compare/streaming ./test/compare/admission
# Services leave here which rights other services use. A right that no test uses fails the run.
RIGHTS_USED := $(abspath $(BIN))/rights-used
.PHONY: test-integration
test-integration: export TRIPOD_RIGHTS_USED_DIR = $(RIGHTS_USED)
test-integration: build wardle controllers test-assets $(TOOLS)/gotestsum ## Run the tests that start the real binaries (TESTS=./test/suites/envtest/... for some).
	@rm -rf $(RIGHTS_USED) && mkdir -p $(RIGHTS_USED)
ifdef TESTS
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -p 1 -timeout 20m $(TESTS)
else
	$(GOTESTSUM) $(RERUN_FAILS) --packages="$(LONG_TESTS) $$(go list ./test/... | grep -v $(BUSY_TESTS:./%=-e /%$$) | tr '\n' ' ')" -- $(GO_TEST_FLAGS) -count=1 -p 3 -timeout 20m
	$(GOTESTSUM) $(RERUN_FAILS) --packages="$(BUSY_TESTS)" -- $(GO_TEST_FLAGS) -count=1 -p 1 -timeout 20m
	go run ./hack/rights-used $(RIGHTS_USED)
endif

FUZZTIME := 1m
.PHONY: fuzz
fuzz: ## Run each fuzz target for a minute (FUZZTIME=10s FUZZ=Headers). What fails becomes a test case in testdata/fuzz.
	hack/fuzz.sh $(FUZZTIME) $(FUZZ)

.PHONY: test-assets
test-assets: $(ASSETS)/kwok ## Build the stock Kubernetes binaries that tests compare and run with; not shipped.
	@mkdir -p $(ASSETS)
	$(GO_BUILD) -o $(ASSETS)/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kube-scheduler k8s.io/sample-apiserver ./test/framework/assets/etcd

##@ End to end, in a kind cluster (Docker, Podman or nerdctl)

# KIND_NODE_IMAGE and KIND_CONFIG are the image of the node and kind's configuration, where kind's own will not do. A test that fails is
# run once more, and the summary says so: everything shares one machine here, and a node that stalls makes all replicas stall.
.PHONY: e2e
e2e: e2e-assets $(TOOLS)/gotestsum ## Install the chart into a kind cluster and test it from outside (E2E_TESTS=./e2e E2E_ARGS="-run TestScale").
	$(TOOLS)/gotestsum --format standard-verbose --rerun-fails=1 --packages="$(E2E_TESTS)" -- -count=1 -p 1 -timeout 40m $(E2E_ARGS)

# The packages that start clusters; the others below e2e have unit tests.
E2E_TESTS := ./e2e ./e2e/takeover ./e2e/faults ./e2e/extend
E2E_LONG_TESTS := ./e2e/kubeadm ./e2e/join

.PHONY: kubeadm-asset
kubeadm-asset:
	go build -C tools/e2e -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/ k8s.io/kubernetes/cmd/kubeadm

.PHONY: e2e-join
e2e-join: e2e-assets test-assets kubeadm-asset $(ASSETS)/proxy-server $(ASSETS)/proxy-agent $(TOOLS)/gotestsum ## Install the chart with controllers, and have another node join it by kubeadm; 5 minutes.
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/join -- -count=1 -timeout 40m $(E2E_ARGS)

# The upgrade needs a second build, whose version is another.
.PHONY: e2e-kubeadm
e2e-kubeadm: e2e-assets test-assets kubeadm-asset $(TOOLS)/gotestsum ## Have kubeadm install, join, renew and upgrade Tripod, and go back to kube-apiserver; 10 minutes.
	$(MAKE) images BIN=$(BIN)/next VERSION=$(VERSION)-next
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/kubeadm -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-up
e2e-up: images $(TOOLS)/helm ## Create a kind cluster with Tripod in it, to try by hand.
	@go run ./e2e/up

.PHONY: e2e-down
e2e-down: ## Remove that cluster.
	@go run ./e2e/up -down

.PHONY: e2e-assets
e2e-assets: images $(TOOLS)/helm
	@mkdir -p $(ASSETS)
	$(GO_BUILD) -o $(ASSETS)/ k8s.io/sample-apiserver

##@ Compare with Kubernetes' own suites

.PHONY: conformance
conformance: build suite-assets ## Run specs of Kubernetes that need no container on stock, once, and on Tripod (CONFORMANCE_ARGS="-sig sig-auth").
	go run ./test/suites/conformance $(CONFORMANCE_ARGS)

.PHONY: conformance-refresh
conformance-refresh: suite-assets ## Find the specs that pass on stock without containers, for a new version of Kubernetes; an hour, in parts if interrupted.
	go run ./test/suites/conformance -refresh $(CONFORMANCE_ARGS)

.PHONY: conformance-cluster
conformance-cluster: images suite-assets ## Run all conformance specs in a kind cluster, on stock and on Tripod; hours (CONFORMANCE_ARGS="-form drop-in -shard 1/6").
	go run ./e2e/conformance $(CONFORMANCE_ARGS)

.PHONY: kubectl-suite
kubectl-suite: build suite-assets ## Run kubectl's own tests on stock, once, and on Tripod (KUBECTL_SUITE_ARGS="-only run_pod_tests").
	go run ./test/suites/kubectl $(KUBECTL_SUITE_ARGS)

OPERATORS_ARGS ?= -docs docs/operators.md
.PHONY: operators
operators: build test-assets ## Run the tests of cert-manager, Cluster API, Kueue and others on stock, once, and on Tripod; hours (OPERATORS_ARGS="-only Kueue").
	go run ./test/suites/operators $(OPERATORS_ARGS)

# A module of its own, because the end-to-end tests require much that nothing else here does.
.PHONY: suite-assets
suite-assets: test-assets
	go build -C tools/e2e -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/ k8s.io/kubernetes/cmd/kubectl k8s.io/kubernetes/cmd/kubectl-convert
	go build -C tools/e2e -o $(abspath $(TOOLS))/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	go test -C tools/e2e -c -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/e2e.test k8s.io/kubernetes/test/e2e

##@ Compare the speed with stock

# What is written into the docs is a whole run; other arguments (BENCH_ARGS="-run GET -rounds 5") leave them alone.
BENCH_ARGS ?= -neighbour both -docs docs/benchmarks.md
.PHONY: bench
bench: build wardle test-assets ## Run stock and Tripod side by side, and write docs/benchmarks.md; 45 minutes (BENCH_ARGS="-run GET").
	go run ./test/bench $(BENCH_ARGS)

# CLUSTERPEDIA is a directory with clustersynchro-manager and apiserver of Clusterpedia. Without it, search is measured alone.
BENCH_SEARCH_ARGS ?= -docs docs/benchmarks-search.md
.PHONY: bench-search
bench-search: build test-assets ## Measure search, beside Clusterpedia if CLUSTERPEDIA names its programs, and write docs/benchmarks-search.md.
	go run ./test/bench/search -clusterpedia "$(CLUSTERPEDIA)" $(BENCH_SEARCH_ARGS)

# One replica of each service beside one kube-apiserver, and as many as a large cluster has beside three.
BENCH_CLUSTER_ARGS ?= -neighbour both -shapes stock,noise=stock,drop-in,3*stock,2/3/2 -profile 0 -docs docs/benchmarks-cluster.md
.PHONY: bench-cluster
bench-cluster: build test-assets ## Have a cluster of 300 nodes and 3,000 pods live on stock and on Tripod, and write docs/benchmarks-cluster.md.
	go run ./test/bench $(BENCH_CLUSTER_ARGS)

##@ Break it

# Root gives every process a network and a disk of its own; without it, the faults that need them are left out.
FAULTS_ARGS ?= -docs docs/faults.md
.PHONY: faults
faults: build test-assets ## Break one thing after the other under load, and write the tables of docs/faults.md; 15 minutes, best as root (FAULTS_ARGS="-run kill").
	go run ./test/disturb/faults $(FAULTS_ARGS)

LOSS ?= 30m
.PHONY: search-loss
search-loss: export LOSS := $(LOSS)
search-loss: build test-assets ## Kill search, its database, clusters and networks for half an hour, and compare all tables with all clusters (LOSS=5m LOSS_DATABASE=mariadb).
	go test $(GO_TEST_FLAGS) -count=1 -timeout 4h -v ./test/disturb/search

##@ Release

DIST := dist
RELEASE := $(abspath $(BIN))/release
PLATFORMS := linux-amd64 linux-arm64

.PHONY: release
release: $(TOOLS)/helm ## Build a release into dist/: binaries, images, chart, SBOMs and checksums (TAG=v0.1.0). The same commit gives the same bytes.
	rm -rf $(RELEASE) $(DIST)
	@$(foreach platform,$(PLATFORMS),GOOS=$(word 1,$(subst -, ,$(platform))) GOARCH=$(word 2,$(subst -, ,$(platform))) \
		$(MAKE) build build-controllers BIN=$(RELEASE)/$(platform) &&) true
	$(pack_images) -binaries '$(PLATFORMS:%=$(RELEASE)/%)' -output $(RELEASE)/images
	go run -C tools/release . -version $(VERSION) -created $(COMMIT_TIME) -binaries $(RELEASE) -platforms '$(PLATFORMS)' \
		-images $(RELEASE)/images -chart $(abspath deploy/helm/tripod) -helm $(abspath $(TOOLS)/helm) \
		-documents '$(abspath LICENSE README.md)' -output $(abspath $(DIST))

##@ Check

# Every check has a fix beside it, verify-X and fix-X, but only a person can fix docs or decide what to do about an advisory.
CHECKS := kubernetes insides tidy advisories proto generated docs licences lint

.PHONY: verify
verify: $(CHECKS:%=verify-%) ## Check vet, lint, formatting, contracts, generated code, docs, go.mod, replace lines, Kubernetes' insides and licence headers.

.PHONY: fix
fix: $(filter-out fix-insides fix-docs fix-advisories,$(CHECKS:%=fix-%)) ## Repair the findings of `make verify` that a program can repair.

.PHONY: verify-kubernetes fix-kubernetes
verify-kubernetes: ## Check that each Kubernetes module has its replace line at the pinned version.
	go run -trimpath ./hack/kubernetes-replaces tools/e2e
fix-kubernetes:
	go run -trimpath ./hack/kubernetes-replaces -fix tools/e2e

.PHONY: bump-kubernetes
bump-kubernetes: ## Require another version of Kubernetes, and say what a person must look at (VERSION=v1.X.Y).
	go run -trimpath ./hack/bump-kubernetes -version '$(VERSION)'

# `make fix` leaves fix-insides out: a person compares the declarations first.
.PHONY: verify-insides fix-insides
verify-insides: ## Check that the declarations of Kubernetes that Tripod relies on (hack/kubernetes-insides.yaml) have not changed.
	go run -trimpath ./hack/kubernetes-insides
fix-insides: ## Record these declarations as they are now, after you adapted our code.
	go run -trimpath ./hack/kubernetes-insides -fix

MODULES := . $(LIBRARIES) $(OUTSIDE) $(patsubst %/go.mod,%,$(wildcard tools/*/go.mod))

.PHONY: verify-tidy fix-tidy
verify-tidy: ## Check that go.mod and go.sum of every module are tidy.
	@$(foreach module,$(MODULES),echo 'go mod tidy: $(module)' && hack/alone.sh $(module) tidy --check &&) true
fix-tidy:
	@$(foreach module,$(MODULES),hack/alone.sh $(module) tidy &&) true

.PHONY: verify-advisories refresh-advisories
verify-advisories: ## Check that no linked module is older than the fix of a known advisory (hack/advisories); needs no network.
	go run -trimpath ./hack/advisories
refresh-advisories: ## Take the advisories of our modules from the newest Go vulnerability database.
	go run -trimpath ./hack/advisories -refresh

# The contracts of the last release, without comments.
PROTO_RELEASED := proto/released.yaml

.PHONY: verify-proto fix-proto
verify-proto: $(TOOLS)/buf ## Check that contracts are documented, formatted, and compatible with the last release.
	$(TOOLS)/buf lint proto
	$(TOOLS)/buf format --diff --exit-code proto
	$(TOOLS)/buf breaking proto --against $(PROTO_RELEASED)
fix-proto: $(TOOLS)/buf
	$(TOOLS)/buf format --write proto

.PHONY: release-proto
release-proto: $(TOOLS)/buf ## Make verify-proto compare later contracts with the present ones; for a release.
	$(TOOLS)/buf build proto --exclude-source-info --output $(PROTO_RELEASED)

PRIORITIES := services/aggregator/apis/apiservices/priorities_generated.go
ETCD_RANGES := local/etcd/access/builtin_generated.go
CODE_TOOLS := $(TOOLS)/deepcopy-gen $(TOOLS)/openapi-gen
PROTO_TOOLS := $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc

.PHONY: verify-generated fix-generated
verify-generated: $(PROTO_TOOLS) $(CODE_TOOLS) ## Check that generated code is up to date.
	hack/verify-generated.sh $(PRIORITIES) go run -trimpath ./hack/gen-apiservice-priorities -output
	hack/verify-generated.sh $(ETCD_RANGES) go run -trimpath ./hack/gen-etcd-ranges -output
	hack/verify-generated.sh docs/values.md go run -trimpath ./hack/gen-chart-values -output
	hack/verify-generated.sh docs/flags.md go run -trimpath ./hack/gen-tables flags
	hack/verify-generated.sh docs/secure.md go run -trimpath ./hack/gen-tables rules
	hack/verify-generated.sh proto hack/generate-proto.sh
	hack/verify-generated.sh examples/wardle hack/generate-example.sh
fix-generated: $(PROTO_TOOLS) $(CODE_TOOLS)
	go run -trimpath ./hack/gen-apiservice-priorities -output $(PRIORITIES)
	go run -trimpath ./hack/gen-etcd-ranges -output $(ETCD_RANGES)
	go run -trimpath ./hack/gen-chart-values
	go run -trimpath ./hack/gen-tables flags docs/flags.md
	go run -trimpath ./hack/gen-tables rules docs/secure.md
	hack/generate-proto.sh proto
	hack/generate-example.sh examples/wardle

.PHONY: verify-docs
verify-docs: ## Check the links of all pages, and that docs/architecture.md lists every package.
	go run -trimpath ./hack/check-docs

.PHONY: verify-licences fix-licences
verify-licences: ## Check that source files start with the licence header.
	hack/licence-headers.sh
fix-licences:
	hack/licence-headers.sh --fix

.PHONY: verify-lint fix-lint
verify-lint: $(TOOLS)/golangci-lint ## Check formatting, go vet and lint.
	go vet -trimpath $(PACKAGES)
	$(TOOLS)/golangci-lint run ./...
	@$(foreach library,$(LIBRARIES) $(OUTSIDE),echo 'golangci-lint run: $(library)' && hack/alone.sh $(library) $(abspath $(TOOLS))/golangci-lint run ./... &&) true
	@$(foreach program,$(OWN_TOOLS),echo 'golangci-lint run: $(program)' && (cd $(program) && $(abspath $(TOOLS))/golangci-lint run ./...) &&) true
fix-lint: $(TOOLS)/golangci-lint
	$(TOOLS)/golangci-lint fmt ./... $(LIBRARIES) $(OUTSIDE)
	$(TOOLS)/golangci-lint run --fix ./...
	@$(foreach library,$(LIBRARIES) $(OUTSIDE),hack/alone.sh $(library) $(abspath $(TOOLS))/golangci-lint run --fix ./... &&) true
	@$(foreach program,$(OWN_TOOLS),(cd $(program) && $(abspath $(TOOLS))/golangci-lint run --fix ./...) &&) true

# Tools have modules of their own, so that their requirements do not bend those of Tripod.
go_build_tool = go build -C tools/$(1) -trimpath -ldflags "-s -w" -o ../../$@ $(2)

$(TOOLS)/gotestsum: tools/gotestsum/go.mod tools/gotestsum/go.sum
	$(call go_build_tool,gotestsum,gotest.tools/gotestsum)

$(TOOLS)/golangci-lint: tools/golangci-lint/go.mod tools/golangci-lint/go.sum
	$(call go_build_tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(TOOLS)/helm: tools/helm/go.mod tools/helm/go.sum
	$(call go_build_tool,helm,helm.sh/helm/v3/cmd/helm)

$(TOOLS)/buf: tools/buf/go.mod tools/buf/go.sum
	$(call go_build_tool,buf,github.com/bufbuild/buf/cmd/buf)

$(TOOLS)/deepcopy-gen: tools/codegen/go.mod tools/codegen/go.sum
	$(call go_build_tool,codegen,k8s.io/code-generator/cmd/deepcopy-gen)

$(TOOLS)/openapi-gen: tools/codegen/go.mod tools/codegen/go.sum
	$(call go_build_tool,codegen,k8s.io/kube-openapi/cmd/openapi-gen)

$(TOOLS)/protoc-gen-go-grpc: tools/protoc-gen-go-grpc/go.mod tools/protoc-gen-go-grpc/go.sum
	$(call go_build_tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

# From the main module: what it generates is for the very protobuf runtime that the services link.
$(TOOLS)/protoc-gen-go: go.mod
	go build -trimpath -ldflags "-s -w" -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

$(ASSETS)/proxy-%: tools/konnectivity/go.mod tools/konnectivity/go.sum
	$(call go_build_tool,konnectivity,sigs.k8s.io/apiserver-network-proxy/cmd/$*)

$(BIN)/kwok $(ASSETS)/kwok: tools/kwok/go.mod tools/kwok/go.sum
	$(call go_build_tool,kwok,sigs.k8s.io/kwok/cmd/kwok)
