# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ End to end, for hours or with kubeadm

.PHONY: kubeadm-asset
kubeadm-asset:
	GOWORK=off go build -C tools/e2e -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/ k8s.io/kubernetes/cmd/kubeadm

.PHONY: e2e-join
e2e-join: e2e-assets test-assets kubeadm-asset $(ASSETS)/proxy-server $(ASSETS)/proxy-agent $(TOOLS)/gotestsum ## Install the preset cluster of the chart, and have another node join it by kubeadm; 5 minutes.
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/join -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-data
e2e-data: e2e-assets $(TOOLS)/gotestsum ## Restore a release from snapshots, and move custom resources to an etcd of their own; 6 minutes.
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/data -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-resize
e2e-resize: e2e-assets test-assets $(TOOLS)/gotestsum ## Give a release three members of etcd, and one again, under load; 6 minutes.
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/resize -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-ha
e2e-ha: e2e-assets test-assets $(TOOLS)/gotestsum ## Install the preset ha of the chart, and evict one pod of each component under load; 8 minutes.
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/ha -- -count=1 -timeout 40m $(E2E_ARGS)

# The upgrade needs a second build, whose version is another.
.PHONY: e2e-kubeadm
e2e-kubeadm: e2e-assets test-assets kubeadm-asset $(TOOLS)/gotestsum ## Have kubeadm install, join, renew and upgrade Tripod, and go back to kube-apiserver; 10 minutes.
	$(MAKE) images BIN=$(BIN)/next VERSION=$(VERSION)-next
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/kubeadm -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-upgrade
e2e-upgrade: export E2E_OLDER_KUBE := $(OLDER)
e2e-upgrade: export E2E_OLDER_COPY := $(OLDER_COPY)
e2e-upgrade: e2e-assets wardle test-assets $(TOOLS)/gotestsum ## Have helm replace one service at a time by that of the other version of Kubernetes, there, back and there again, under load; 12 minutes (FROM=released).
	$(make_older) images wardle
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/upgrade -- -count=1 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-registry
e2e-registry: build test-assets $(TOOLS)/helm $(TOOLS)/cosign $(TOOLS)/crane $(TOOLS)/gotestsum ## Publish a release to a registry in a kind cluster, install it from there, and tamper with it; 5 minutes.
	$(MAKE) release TAG=v0.0.0-registry PLATFORMS=linux-$(shell go env GOARCH) OLDER_KUBES= DIST=$(BIN)/e2e/dist SIGN_KEY= REGISTRY=
	$(TOOLS)/gotestsum --format standard-verbose --packages=./e2e/published -- -count=1 -timeout 40m $(E2E_ARGS)

##@ Compare with Kubernetes' own suites

.PHONY: conformance
conformance: build suite-assets ## Run specs of Kubernetes that need no container on stock, once, and on Tripod (CONFORMANCE_ARGS="-sig sig-auth", CONFORMANCE_ARGS=-partitions).
	go run ./lab/conformance $(CONFORMANCE_ARGS)

.PHONY: conformance-refresh
conformance-refresh: suite-assets ## Find the specs that pass on stock without containers, for a new version of Kubernetes; an hour, in parts if interrupted.
	go run ./lab/conformance -refresh $(CONFORMANCE_ARGS)

.PHONY: conformance-cluster
conformance-cluster: images suite-assets ## Run all conformance specs in a kind cluster, on stock and on Tripod; hours (CONFORMANCE_ARGS="-form drop-in -shard 1/6").
	go run ./lab/conformance/cluster $(CONFORMANCE_ARGS)

.PHONY: kubectl-suite
kubectl-suite: build suite-assets ## Run kubectl's own tests on stock, once, and on Tripod (KUBECTL_SUITE_ARGS="-only run_pod_tests").
	go run ./lab/kubectl $(KUBECTL_SUITE_ARGS)

OPERATORS_ARGS ?= -docs docs/operators.md
.PHONY: operators
operators: build test-assets ## Run the tests of cert-manager, Cluster API, Kueue and others on stock, once, and on Tripod; hours (OPERATORS_ARGS="-only Kueue", OPERATORS_ARGS=-partitions).
	go run ./lab/operators $(OPERATORS_ARGS)

# A module of its own, because the end-to-end tests require much that nothing else here does.
.PHONY: suite-assets
suite-assets: test-assets
	GOWORK=off go build -C tools/e2e -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/ k8s.io/kubernetes/cmd/kubectl k8s.io/kubernetes/cmd/kubectl-convert
	GOWORK=off go build -C tools/e2e -o $(abspath $(TOOLS))/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	GOWORK=off go test -C tools/e2e -c -ldflags "$(LDFLAGS)" -o $(abspath $(ASSETS))/e2e.test k8s.io/kubernetes/test/e2e

##@ Compare the speed with stock

# What is written into the docs is a whole run; other arguments (BENCH_ARGS="-run GET -rounds 5") leave them alone.
BENCH_ARGS ?= -neighbour both -docs docs/benchmarks.md
.PHONY: bench
bench: build wardle test-assets ## Run stock and Tripod side by side, and write docs/benchmarks.md; an hour (BENCH_ARGS="-run GET").
	go run ./lab/bench $(BENCH_ARGS)

BENCH_PARTITIONS_ARGS ?=
.PHONY: bench-partitions
bench-partitions: build test-assets ## Measure the memory of partitions, and of one extensions with the same definitions; 15 minutes (BENCH_PARTITIONS_ARGS="-crds 1000", BENCH_PARTITIONS_ARGS="-limit 100ms -crds 20000 -partitions 4").
	go run ./lab/bench/divided $(BENCH_PARTITIONS_ARGS)

BENCH_ISOLATION_ARGS ?= -docs docs/benchmarks-partitions.md
.PHONY: bench-isolation
bench-isolation: build test-assets ## Measure what one team notices of faults of another, and write docs/benchmarks-partitions.md; 15 minutes.
	go run ./lab/bench/isolation $(BENCH_ISOLATION_ARGS)

BENCH_SERVICES_ARGS ?= -docs docs/benchmarks-services.md
.PHONY: bench-services
bench-services: build wardle notes ## Measure API services of the SDK with each storage, and write docs/benchmarks-services.md; 8 minutes.
	go run ./lab/bench/storages $(BENCH_SERVICES_ARGS)

BENCH_RELEASES_ARGS ?= -docs docs/benchmarks-releases.md
.PHONY: bench-releases
bench-releases: e2e-assets ## Install 20 releases in one kind cluster, and write what each takes to docs/benchmarks-releases.md; 30 minutes (BENCH_RELEASES_ARGS="-n 3").
	go run ./lab/bench/releases $(BENCH_RELEASES_ARGS)

# CLUSTERPEDIA is a directory with clustersynchro-manager and apiserver of Clusterpedia. Without it, search is measured alone.
BENCH_SEARCH_ARGS ?= -docs docs/benchmarks-search.md
.PHONY: bench-search
bench-search: build test-assets ## Measure search, beside Clusterpedia if CLUSTERPEDIA names its programs, and write docs/benchmarks-search.md.
	go run ./lab/bench/search -run 'SYNC|LAG|WATCH|LIST|MANY' -clusterpedia "$(CLUSTERPEDIA)" $(BENCH_SEARCH_ARGS)
	go run ./lab/bench/search -run CONSOLE -clusters 100 $(BENCH_SEARCH_ARGS)

# One replica of each service beside one kube-apiserver, and as many as a large cluster has beside three.
BENCH_CLUSTER_ARGS ?= -neighbour both -shapes stock,noise=stock,drop-in,3*stock,2/3/2 -profile 10s -docs docs/benchmarks-cluster.md
.PHONY: bench-cluster
bench-cluster: build test-assets ## Have a cluster of 300 nodes and 3,000 pods live on stock and on Tripod, and write docs/benchmarks-cluster.md.
	go run ./lab/bench $(BENCH_CLUSTER_ARGS)

##@ Break it

# Root gives every process a network and a disk of its own; without it, the faults that need them are left out. The second command shows which
# alerts fire, and needs Debian's package prometheus.
FAULTS_ARGS ?= -docs docs/faults.md
.PHONY: faults
faults: build test-assets $(TOOLS)/helm ## Break one thing after the other under load, twice, and write the tables of docs/faults.md; an hour, best as root (FAULTS_ARGS="-run kill").
	go run ./test/disturb/faults $(FAULTS_ARGS)
	go run ./test/disturb/faults -alerts $(FAULTS_ARGS)

# The scenarios whose names match BUSY_RUN, each with a new cluster. Root makes the cgroups that limit processors.
BUSY_RUN ?= .
.PHONY: busy
busy: export BUSY := full
busy: export BUSY_DOCS ?= $(if $(filter .,$(BUSY_RUN)),docs/faults.md)
busy: build test-assets ## Let herds of clients loose on Tripod and on kube-apiserver at bad moments, and write the table of docs/faults.md; 25 minutes (BUSY_RUN=informers).
	go test $(GO_TEST_FLAGS) -count=1 -timeout 2h -v -run 'TestScenarios/$(BUSY_RUN)' ./test/disturb/busy

LOSS ?= 30m
.PHONY: search-loss
search-loss: export LOSS := $(LOSS)
search-loss: build test-assets ## Kill search, its database, clusters and networks for half an hour, and compare all tables with all clusters (LOSS=5m LOSS_DATABASE=mariadb).
	go test $(GO_TEST_FLAGS) -count=1 -timeout 4h -v ./test/disturb/search
