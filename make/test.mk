# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Test

# Each run ends with its own summary. The last one counts the tests of all of them. With TESTS, the other integration tests have no results.
.PHONY: test
test: test-unit test-integration ## Run all tests; builds what they need.
ifndef TESTS
	@echo 'Unit and integration tests together:'
	@$(TOOLS)/gotestsum --format none $(GOTESTSUM_SAYS) --raw-command -- cat $(BIN)/test-unit.json $(BIN)/test-waiting.json $(BIN)/test-busy.json
endif

# Those that take longest start first. Some of them wait more than they compute, so three run at a time. The tests of the chart run helm 850 times:
# beside the integration tests, each of which has a dozen processes at work, they once took over half an hour instead of two minutes.
LONG_UNIT_TESTS := ./deploy/helm ./services/search/member ./services/search/store ./admin/etcd/split ./admin/etcd/resize
.PHONY: test-unit
test-unit: $(TOOLS)/gotestsum $(TOOLS)/helm $(TOOLS)/versitygw ## Run the unit tests.
	$(TOOLS)/helm lint --strict --quiet --kube-version $(KUBE_VERSION) deploy/helm/tripod
	$(GOTESTSUM) $(RERUN_FAILS) --packages="$(LONG_UNIT_TESTS) $$(go list $(PACKAGES) | grep -v -e /tripod/test/ $(patsubst ./%,-e '/%$$',$(API_TESTS) $(E2E_TESTS) $(E2E_LONG_TESTS)) | tr '\n' ' ')" -- $(GO_TEST_FLAGS) -p 3 -timeout 30m
	@$(foreach program,$(OWN_TOOLS),echo 'go test: $(program)' && GOWORK=off go test -C $(program) ./... &&) true

# Those that measure shares of load, or keep the machine busy, run alone, one package at a time. The others mostly wait, so more of them run at
# a time than there are processors, those first that take longest.
BUSY_TESTS := ./test/disturb/attacks ./test/disturb/busy ./test/disturb/dataplane ./test/disturb/faults ./test/disturb/hostile ./test/disturb/linearizability ./test/disturb/storages
# These compile services outside of the repository for five minutes, so they run each night (e2e/README.md).
NIGHTLY_TESTS := ./test/suites/docs ./test/suites/outside
LONG_TESTS := ./test/disturb/partitions ./test/compare/introspection ./test/compare/apiservice ./test/suites/search ./test/suites/console \
	./test/compare/identity ./test/suites/moves ./test/compare/streaming ./test/compare/behaviour ./test/suites/controllers ./test/disturb/services \
	./test/compare/takeover ./test/compare/endpoints
# Tests of services with apitest start tripod from the PATH.
API_TESTS := ./apiservice/apitest ./examples/wardle ./examples/storages/memory ./examples/storages/files ./examples/storages/sql ./examples/storages/readonly \
	./examples/metrics
# Services leave here which rights other services use. A right that no test uses fails the run.
RIGHTS_USED := $(abspath $(BIN))/rights-used
.PHONY: test-integration test-waiting test-busy
test-integration test-waiting test-busy: export TRIPOD_RIGHTS_USED_DIR = $(RIGHTS_USED)
test-integration test-waiting test-busy: export TEST_TRIPOD := 1
test-integration test-waiting test-busy: export PATH := $(abspath $(BIN)):$(PATH)
ifdef TESTS
test-integration: build wardle notes controllers test-assets $(TOOLS)/gotestsum $(TOOLS)/helm
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -p 1 -timeout 20m $(TESTS)
else
test-integration: test-busy ## Run the tests that start the real binaries (TESTS=./test/suites/envtest/... for some).
	go run ./hack/rights-used $(RIGHTS_USED)
endif
test-waiting: build wardle notes controllers test-assets $(TOOLS)/gotestsum
	@rm -rf $(RIGHTS_USED) && mkdir -p $(RIGHTS_USED)
	$(GOTESTSUM) $(RERUN_FAILS) --packages="$(LONG_TESTS) $(API_TESTS) $$(go list ./test/... | grep -v -e /suites/upgrade$$ $(patsubst ./%,-e /%$$,$(BUSY_TESTS) $(NIGHTLY_TESTS)) | tr '\n' ' ')" -- $(GO_TEST_FLAGS) -count=1 -p 3 -timeout 30m
test-busy: test-waiting $(TOOLS)/helm
	$(GOTESTSUM) $(RERUN_FAILS) --packages="$(BUSY_TESTS)" -- $(GO_TEST_FLAGS) -count=1 -p 1 -timeout 20m

# The older programs are those of this version of Tripod with an older Kubernetes (docs/kubernetes-versions.md), or with FROM=released those of the
# last release. That has no record of its version, so nothing refuses a newer program beside it, and its etcd is not a program of its own.
OLDER ?= $(firstword $(OLDER_KUBES))
ifeq ($(FROM),released)
OLDER_COPY := $(BIN)/released
RELEASED := $(shell grep -v '^\#' proto/released.ref)
make_older = rm -rf $(OLDER_COPY) && mkdir -p $(OLDER_COPY) && git archive $(RELEASED) | tar -x -C $(OLDER_COPY) && \
	$(MAKE) -C $(OLDER_COPY) FROM= VERSION=$$(git describe --tags --always $(RELEASED))
UPGRADE_ARGS := -skip 'TestEtcdMembers|TestNoOtherVersionJoins'
test-upgrade: export TEST_OLDER_RELEASED := 1
else
OLDER_COPY := $(BIN)/kube-$(OLDER)
make_older = $(MAKE) KUBE=$(OLDER)
OLDER_ETCD := test-etcd
endif
.PHONY: test-upgrade
test-upgrade: export TEST_OLDER_KUBE := $(OLDER)
test-upgrade: export TEST_OLDER_BINARIES := $(abspath $(OLDER_COPY))/bin
test-upgrade: build wardle test-assets $(TOOLS)/gotestsum ## Replace services under load, one at a time, by those of the older version of Kubernetes and back, and members of etcd; 8 minutes (FROM=released).
	$(make_older) build wardle $(OLDER_ETCD)
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m $(UPGRADE_ARGS) ./test/suites/upgrade

.PHONY: test-nightly
test-nightly: ## Follow the tutorials on one machine, and build API services outside of the repository; 6 minutes.
	$(MAKE) test-integration TESTS="$(NIGHTLY_TESTS)"

.PHONY: test-emulated
test-emulated: export TEST_EMULATED_VERSION := $(OLDER)
test-emulated: build wardle test-assets $(TOOLS)/gotestsum ## Run the comparisons with kube-apiserver while both emulate the older version of Kubernetes; 10 minutes.
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m ./test/compare/requests ./test/compare/admission \
		./test/compare/identity ./test/compare/loopback ./test/compare/streaming

# kube-apiserver of the newer version differs from that of the older one, also when it emulates that. Tripod may only differ where it does.
.PHONY: test-emulated-older
test-emulated-older: export TEST_EMULATED_VERSION := $(OLDER)
test-emulated-older: export TEST_STOCK := $(abspath $(BIN))/kube-$(OLDER)/bin/test-assets/kube-apiserver
test-emulated-older: export TEST_DIFFERENCES := $(abspath $(BIN))/differences-$(OLDER).jsonl
test-emulated-older: build wardle test-assets $(TOOLS)/gotestsum ## Compare Tripod, which emulates the older version of Kubernetes, with kube-apiserver of that version; 10 minutes.
	$(MAKE) test-assets KUBE=$(OLDER)
	TEST_AGAINST=stock $(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m ./test/compare/requests
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m -v ./test/compare/requests

.PHONY: test-partitions
test-partitions: export TEST_EXTENSIONS_PARTITIONS := a=example.com b=*.example.com,*.example.org
test-partitions: build wardle test-assets $(TOOLS)/gotestsum ## Run the comparisons with kube-apiserver that are about custom resources, and envtest, with extensions in three parts; 5 minutes.
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m ./test/compare/behaviour ./test/compare/admission ./test/suites/envtest

KINE ?= sqlite
.PHONY: test-kine
test-kine: export TEST_KINE := $(KINE)
test-kine: build wardle test-assets $(TOOLS)/gotestsum ## Run comparisons with kube-apiserver with kine in place of etcd, on both sides; 5 minutes (KINE=postgres://postgres@127.0.0.1:5432).
	$(GOTESTSUM) -- $(GO_TEST_FLAGS) -count=1 -timeout 30m ./test/compare/behaviour ./test/compare/requests ./test/compare/admission

.PHONY: console-screenshots
console-screenshots: build test-assets ## Take the pictures of docs/console.md again, with Chromium.
	CONSOLE_SCREENSHOTS=$(abspath docs/images) go test $(GO_TEST_FLAGS) -count=1 ./test/suites/console

FUZZTIME := 1m
.PHONY: recording
recording: build ## Record docs/images/recording.svg again, 20 seconds of a terminal, with asciinema and npx.
	hack/recording/record.sh docs/images/recording.svg

.PHONY: fuzz
fuzz: ## Run each fuzz target for a minute (FUZZTIME=10s FUZZ=Headers). What fails becomes a test case in testdata/fuzz.
	hack/fuzz.sh $(FUZZTIME) $(FUZZ)

.PHONY: test-assets
test-assets: $(ASSETS)/kwok $(ASSETS)/kine $(ASSETS)/proxy-server $(ASSETS)/proxy-agent ## Build the stock Kubernetes binaries that tests compare and run with; not shipped.
	@mkdir -p $(ASSETS)
	$(GO_BUILD) -o $(ASSETS)/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kube-scheduler k8s.io/sample-apiserver ./test/framework/assets/etcd

.PHONY: test-etcd
test-etcd:
	@mkdir -p $(ASSETS)
	$(GO_BUILD) -o $(ASSETS)/ ./test/framework/assets/etcd

##@ End to end, in a kind cluster (Docker, Podman or nerdctl)

# KIND_NODE_IMAGE and KIND_CONFIG are the image of the node and kind's configuration, where kind's own will not do. A test that fails is
# run once more, and the summary says so: everything shares one machine here, and a node that stalls makes all replicas stall.
# Each package has a cluster of its own, and mostly waits for pods, so two run at a time. With three, nodes on 2 processors stood still for seconds.
.PHONY: e2e
e2e: e2e-assets $(TOOLS)/gotestsum ## Install the chart into a kind cluster and test it from outside (E2E_TESTS=./e2e E2E_ARGS="-run TestScale").
	$(TOOLS)/gotestsum --format standard-verbose $(GOTESTSUM_SAYS) --rerun-fails=1 --packages="$(E2E_TESTS)" -- -count=1 -p 2 -timeout 40m $(E2E_ARGS)

.PHONY: e2e-faults e2e-extend
e2e-faults: ## Break each part of an installed release in turn, and renew its certificates; 8 minutes.
	$(MAKE) e2e E2E_TESTS=./e2e/faults
e2e-extend: ## Follow the tutorials for API services and partitions in kind; 6 minutes.
	$(MAKE) e2e E2E_TESTS=./e2e/extend

# The packages that start clusters; the others below e2e have unit tests. e2e/README.md says when the long ones run.
E2E_TESTS := ./e2e ./e2e/takeover
E2E_LONG_TESTS := ./e2e/faults ./e2e/extend ./e2e/data ./e2e/kubeadm ./e2e/join ./e2e/upgrade ./e2e/ha ./e2e/resize ./e2e/published

.PHONY: e2e-up
e2e-up: e2e-assets ## Create a kind cluster with Tripod in it, to try by hand.
	@go run ./e2e/up

.PHONY: e2e-down
e2e-down: ## Remove that cluster.
	@go run ./e2e/up -down

.PHONY: e2e-assets
e2e-assets: images $(TOOLS)/helm
	@mkdir -p $(ASSETS)
	$(GO_BUILD) -o $(ASSETS)/ k8s.io/sample-apiserver k8s.io/kubernetes/cmd/kube-controller-manager
