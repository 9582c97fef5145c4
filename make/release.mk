# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Release

DIST ?= dist
# A registry with a path, such as registry.example.com/tripod-k8s. The login of docker serves for it.
REGISTRY ?=
RELEASE := $(abspath $(BIN))/release
PLATFORMS := linux-amd64 linux-arm64

# Files of an older Kubernetes have its version in their names, such as v0.1.0-kube1.36. Checksums are of all files in dist/, so those of this
# version are the last.
.PHONY: release release-files
release: ## Build a release into dist/, with each version of Kubernetes (TAG=v0.1.0), sign it (SIGN_KEY=cosign.key), and publish images and charts (REGISTRY=...).
	$(if $(REGISTRY),$(require_key)$(require_commit))rm -rf $(DIST)
	@$(foreach kube,$(if $(OF_OLDER_KUBE),,$(OLDER_KUBES)),$(MAKE) release-files KUBE=$(kube) DIST=$(abspath $(DIST)) &&) true
	$(MAKE) release-files
	$(if $(SIGN_KEY),GOWORK=off go run -C tools/sign . -key $(abspath $(SIGN_KEY)) $(abspath $(DIST)))
	$(if $(REGISTRY),$(publish))
release-files: $(TOOLS)/helm
	rm -rf $(RELEASE)
	@$(foreach platform,$(PLATFORMS),GOOS=$(word 1,$(subst -, ,$(platform))) GOARCH=$(word 2,$(subst -, ,$(platform))) \
		$(MAKE) build build-controllers BIN=$(RELEASE)/$(platform) &&) true
	$(pack_images) -binaries '$(PLATFORMS:%=$(RELEASE)/%)' -output $(RELEASE)/images
	GOWORK=off go run -C tools/programs ./release -version $(VERSION) -created $(COMMIT_TIME) -binaries $(RELEASE) -platforms '$(PLATFORMS)' \
		-services '$(SERVICES)' -commands '$(COMMANDS)' \
		-images $(RELEASE)/images -chart $(abspath deploy/helm/tripod) -helm $(abspath $(TOOLS)/helm) \
		-documents '$(abspath LICENSE README.md)' -output $(abspath $(DIST))

require_key = $(if $(SIGN_KEY),,$(error REGISTRY needs SIGN_KEY: everything in a registry is signed. `cosign generate-key-pair` makes a key))
require_commit = $(if $(shell git status --porcelain --untracked-files=no),$(error REGISTRY needs a checkout without changes: the provenance names its commit))
publish = GOWORK=off go run -C tools/sign ./publish -registry $(REGISTRY) -key $(abspath $(SIGN_KEY)) $(abspath $(DIST))
.PHONY: publish
publish: ## Push the images and charts of the release in DIST to REGISTRY, signed with SIGN_KEY; again after an error. Tags come last.
	$(if $(REGISTRY),$(require_key),$(error REGISTRY is needed: a registry with a path, such as registry.example.com/tripod-k8s))$(publish)

.PHONY: verify-release
verify-release: ## Verify that the project's workflow signed the release in DIST (TAG=v0.1.0), or that a key did (KEY=cosign.pub), and its checksums.
	GOWORK=off go run -C tools/sign . verify $(if $(KEY),-key $(abspath $(KEY)),-version $(VERSION)) \
		$(if $(TRUSTED_ROOT),-trusted-root $(abspath $(TRUSTED_ROOT))) $(abspath $(DIST))
