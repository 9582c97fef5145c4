# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The version of Kubernetes is written once, in go.mod.
KUBE_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' go.mod)
KUBE_MAJOR := $(word 1,$(subst ., ,$(KUBE_VERSION:v%=%)))
KUBE_MINOR := $(word 2,$(subst ., ,$(KUBE_VERSION)))
OWN_KUBE := $(KUBE_MAJOR).$(KUBE_MINOR)
# Older minor versions, which KUBE=1.X selects. hack/kube makes a copy of this folder whose go.mod has that version, and runs make there.
OLDER_KUBES := $(patsubst kube/%/go.mod,%,$(wildcard kube/*/go.mod))
OF_OLDER_KUBE := $(filter $(OWN_KUBE),$(OLDER_KUBES))

export CGO_ENABLED := 0
# Without grpcnotrace, grpc links text/template, whose reflection keeps every method of every type:
# the services would be a third larger. One set of flags everywhere shares the build cache. Files that only build with an older Kubernetes, or
# without it, have a tag such as kube1.36.
comma := ,
export GOFLAGS := -trimpath -tags=grpcnotrace$(OF_OLDER_KUBE:%=$(comma)kube%) -buildvcs=false
BIN := bin
ASSETS := $(BIN)/test-assets
TOOLS := $(BIN)/tools

VERSION ?= $(or $(TAG),$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))$(OF_OLDER_KUBE:%=-kube%)
COMMIT := $(shell git rev-parse -q --verify HEAD || echo unknown)
COMMIT_TIME := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
BUILD_DATE := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)

kube_version_flags = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version, \
	-X $(package).gitVersion=$(KUBE_VERSION) -X $(package).gitMajor=$(KUBE_MAJOR) -X $(package).gitMinor=$(KUBE_MINOR) \
	-X $(package).gitTreeState=clean -X $(package).gitCommit=$(COMMIT) -X $(package).buildDate=$(BUILD_DATE))
LDFLAGS := -s -w $(strip $(kube_version_flags)) -X github.com/tripod-k8s/tripod/base/service.Version=$(VERSION)
GO_BUILD := go build -ldflags "$(LDFLAGS)"

# The list of services is in services/list.
SERVICE_LIST := deploy/helm/tripod/services.json
SERVICES := $(shell sed -n 's/^ *{"name":"\([^"]*\)".*/\1/p' $(SERVICE_LIST))
# The services that are one program, to which their names are links, and the others.
LINKED_SERVICES := $(shell sed -n 's/^ *{"name":"\([^"]*\)".*"optional":false.*/\1/p' $(SERVICE_LIST))
OWN_SERVICES := $(filter-out $(LINKED_SERVICES),$(SERVICES))
# The command line, the program that it starts first, and that of the linked services. They are in one image.
COMMANDS := tripod tripod-supervisor tripod-services
# The modules with programs of our own. That of what signs a release has no other program (docs/design/0031).
OWN_TOOLS := tools/programs tools/sign
# The modules of go.work beside the root. Strangers may require all but the example, which is built on them, so none requires k8s.io/kubernetes.
LIBRARIES := apiservice examples/wardle base proto
# lab is for this repository alone, so it may require anything.
PACKAGES := ./... $(LIBRARIES:%=./%/...) ./lab/...
# Tests are linked without what debuggers need, which halves the time that links take, and without vet, which is part of verify.
# The summary counts skipped tests by reason, and a package that failed outside of its tests fails the run.
GOTESTSUM_SAYS = --hide-summary=skipped --jsonfile $(BIN)/$@.json --post-run-command 'go run -trimpath ./hack/skipped-tests'
GOTESTSUM = $(TOOLS)/gotestsum --format pkgname $(GOTESTSUM_SAYS)
GO_TEST_FLAGS := -vet=off -ldflags='-s -w'
# Replicas, etcd, databases and clients of a test share the processors with those of other tests. Up to eight tests that fail are run once
# more, and the summary names them with both runs; more than eight end the run.
RERUN_FAILS := --rerun-fails=1 --rerun-fails-max-failures=8 --rerun-fails-run-root-test

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

ifeq ($(filter $(or $(KUBE),$(OWN_KUBE)),$(OWN_KUBE)),)
include make/kube.mk
else
include make/build.mk
include make/test.mk
include make/check.mk
include make/lab.mk
include make/release.mk
include make/tools.mk
endif
