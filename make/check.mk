# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Check

# Every check has a fix beside it, verify-X and fix-X, but only a person can fix docs or decide what to do about an advisory.
# With an older Kubernetes (make/kube.mk), those are left out that do not depend on the version.
CHECKS := kubernetes insides tidy advisories generated lint $(if $(OF_OLDER_KUBE),,proto api docs licences older darwin)

# SKIP_CHECKS names checks that run elsewhere.
.PHONY: verify
verify: $(filter-out $(SKIP_CHECKS:%=verify-%),$(CHECKS:%=verify-%)) ## Check vet, lint, formatting, types for macOS, contracts, generated code, docs, go.mod, replace lines, Kubernetes' insides, older versions and licence headers.

.PHONY: fix
fix: $(filter-out fix-insides fix-docs fix-advisories fix-darwin fix-api,$(CHECKS:%=fix-%)) ## Repair the findings of `make verify` that a program can repair.

.PHONY: verify-kubernetes fix-kubernetes
verify-kubernetes: ## Check that each Kubernetes module has its replace line at the pinned version.
	go run -trimpath ./hack/kubernetes-replaces tools/e2e
fix-kubernetes:
	go run -trimpath ./hack/kubernetes-replaces -fix tools/e2e

# What compiles no Kubernetes. CI does the rest for older versions in a job of its own.
.PHONY: verify-older fix-older type-check
verify-older: ## Check modules, Kubernetes' insides, advisories and types with the older versions of Kubernetes.
	@$(foreach kube,$(OLDER_KUBES),$(MAKE) verify-kubernetes verify-insides verify-tidy verify-advisories type-check KUBE=$(kube) &&) true
fix-older:
	@$(foreach kube,$(OLDER_KUBES),$(MAKE) fix-kubernetes fix-tidy fix-generated KUBE=$(kube) &&) true
type-check: ## Check the types of all packages and tests without compiling what they import; a minute for another version of Kubernetes.
	go run -trimpath ./hack/type-check $(PACKAGES)

.PHONY: verify-darwin
verify-darwin: ## Check the types of the programs and their tests for macOS, without compiling what they import.
	go run -trimpath -exec 'env GOOS=darwin GOARCH=arm64' ./hack/type-check ./cmd/... ./console/... ./local/... ./admin/... ./services/...

.PHONY: bump-kubernetes
bump-kubernetes: ## Require another version of Kubernetes, and say what a person must look at (VERSION=v1.X.Y).
	go run -trimpath ./hack/bump-kubernetes -version '$(VERSION)'

NEWEST ?= patch
.PHONY: try-kubernetes
# A pre-release may need a newer Go than the one here. The go command gets it from the module proxy.
try-kubernetes: export GOTOOLCHAIN := $(or $(GOTOOLCHAIN),auto)
try-kubernetes: ## Require the newest version of Kubernetes, and report what it needs (NEWEST=patch, minor or pre-release). It changes the checkout.
	$(MAKE) bump-kubernetes VERSION=$$(go run -trimpath ./hack/bump-kubernetes -newest $(NEWEST))
	$(MAKE) type-check

# The list of this version says which of our files rely on what. In that of an older one, only the declarations count.
INSIDES_FLAGS := $(if $(OF_OLDER_KUBE),-ours=false)
# `make fix` leaves fix-insides out: a person compares the declarations first.
.PHONY: verify-insides fix-insides
verify-insides: ## Check that the declarations of Kubernetes that Tripod relies on (hack/kubernetes-insides.yaml) have not changed.
	go run -trimpath ./hack/kubernetes-insides $(INSIDES_FLAGS)
fix-insides: ## Record these declarations as they are now, after you adapted our code.
	go run -trimpath ./hack/kubernetes-insides $(INSIDES_FLAGS) -fix

MODULES := . lab $(LIBRARIES) $(patsubst %/go.mod,%,$(wildcard tools/go.mod tools/*/go.mod))

.PHONY: verify-tidy fix-tidy
verify-tidy: ## Check that go.mod and go.sum of every module are tidy, and that go.work.sum is complete.
	@hack/verify-generated.sh go.work.sum hack/workspace-sums.sh
	@$(foreach module,$(MODULES),echo 'go mod tidy: $(module)' && hack/alone.sh $(module) tidy --check &&) true
fix-tidy:
	@$(foreach module,$(MODULES),hack/alone.sh $(module) tidy &&) true
	@hack/workspace-sums.sh go.work.sum

# Downloads modules of platforms, so it is no part of verify.
PLATFORM_CRDS := test/suites/search/testdata/platforms
.PHONY: verify-platform-crds fix-platform-crds
verify-platform-crds: ## Check that the definitions of platforms, which tests of search use, are those of their Go modules.
	hack/verify-generated.sh $(PLATFORM_CRDS) go run -trimpath ./hack/gen-platform-crds
fix-platform-crds:
	go run -trimpath ./hack/gen-platform-crds $(PLATFORM_CRDS)

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

.PHONY: verify-api
verify-api: ## Check that the Go API of apiservice has only grown since the last release, but for what apiservice/incompatible.yaml lists.
	$(if $(filter 1,$(SKIP_MIXED)),@echo 'The Go API is NOT compared: this checkout has no history (SKIP_MIXED=1)',GOWORK=off go run -C tools/programs ./apidiff -repository $(CURDIR))

PRIORITIES := services/aggregator/apis/apiservices/priorities_generated.go
# The API groups that no partition of extensions can have.
GROUP_LIST := deploy/helm/tripod/groups.json
ETCD_RANGES := admin/etcd/access/builtin_generated.go
CODE_TOOLS := $(TOOLS)/deepcopy-gen $(TOOLS)/openapi-gen $(TOOLS)/controller-gen
# Folders with the types of an API service, one folder a version.
SERVICE_TYPES := examples/wardle examples/storages services/search/apis/search
# The schemas of types of another module.
METRICS_SCHEMAS := examples/metrics k8s.io/metrics/pkg/apis/metrics/v1beta1
PROTO_TOOLS := $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc

.PHONY: verify-generated fix-generated
verify-generated: $(PROTO_TOOLS) $(CODE_TOOLS) ## Check that generated code is up to date.
	hack/verify-generated.sh $(PRIORITIES) go run -trimpath ./hack/gen-apiservice-priorities -output
	hack/verify-generated.sh $(ETCD_RANGES) go run -trimpath ./hack/gen-etcd-ranges -output
	hack/verify-generated.sh $(SERVICE_LIST) go run -trimpath ./hack/gen-services list
	hack/verify-generated.sh $(GROUP_LIST) go run -trimpath ./hack/gen-services groups
	hack/verify-generated.sh .golangci.yml go run -trimpath ./hack/gen-services lint
	hack/verify-generated.sh docs/values.md go run -trimpath ./hack/gen-chart-values -output
	hack/verify-generated.sh docs/flags.md go run -trimpath ./hack/gen-tables flags
	hack/verify-generated.sh docs/secure.md go run -trimpath ./hack/gen-tables rules
	hack/verify-generated.sh docs/kubernetes-versions.md go run -trimpath ./hack/kube -table
	hack/verify-generated.sh proto hack/generate-proto.sh
	@$(foreach types,$(SERVICE_TYPES),echo 'generate-types.sh: $(types)' && hack/verify-generated.sh $(types) hack/generate-types.sh $(types) &&) true
	hack/verify-generated.sh $(firstword $(METRICS_SCHEMAS)) hack/generate-types.sh $(METRICS_SCHEMAS)
	hack/verify-generated.sh services/search/crds hack/generate-crds.sh
fix-generated: $(PROTO_TOOLS) $(CODE_TOOLS)
	go run -trimpath ./hack/gen-apiservice-priorities -output $(PRIORITIES)
	go run -trimpath ./hack/gen-etcd-ranges -output $(ETCD_RANGES)
	go run -trimpath ./hack/gen-services list $(SERVICE_LIST)
	go run -trimpath ./hack/gen-services groups $(GROUP_LIST)
	go run -trimpath ./hack/gen-services lint .golangci.yml
	go run -trimpath ./hack/gen-chart-values
	go run -trimpath ./hack/gen-tables flags docs/flags.md
	go run -trimpath ./hack/gen-tables rules docs/secure.md
	go run -trimpath ./hack/kube -table docs/kubernetes-versions.md
	$(if $(OF_OLDER_KUBE),,go run -trimpath ./hack/doc-versions -fix)
	hack/generate-proto.sh proto
	@$(foreach types,$(SERVICE_TYPES),echo 'generate-types.sh: $(types)' && hack/generate-types.sh $(types) $(types) &&) true
	hack/generate-types.sh $(METRICS_SCHEMAS) $(firstword $(METRICS_SCHEMAS))
	hack/generate-crds.sh services/search/crds

.PHONY: verify-docs
verify-docs: ## Check the links of all pages, that docs/architecture.md lists every package, and versions and counts on pages.
	go run -trimpath ./hack/check-docs
	go run -trimpath ./hack/doc-versions

.PHONY: verify-licences fix-licences
verify-licences: ## Check that source files start with the licence header.
	hack/licence-headers.sh
fix-licences:
	hack/licence-headers.sh --fix

.PHONY: verify-lint fix-lint
# golangci-lint runs all analyzers of go vet (govet), so go vet itself would do the same once more.
verify-lint: $(TOOLS)/golangci-lint ## Check formatting, go vet and lint.
	$(TOOLS)/golangci-lint run $(PACKAGES)
	@$(foreach program,$(OWN_TOOLS),echo 'golangci-lint run: $(program)' && (cd $(program) && GOWORK=off $(abspath $(TOOLS))/golangci-lint run ./...) &&) true
fix-lint: $(TOOLS)/golangci-lint
	$(TOOLS)/golangci-lint fmt ./... $(LIBRARIES) lab
	$(TOOLS)/golangci-lint run --fix $(PACKAGES)
	@$(foreach program,$(OWN_TOOLS),(cd $(program) && GOWORK=off $(abspath $(TOOLS))/golangci-lint run --fix ./...) &&) true
