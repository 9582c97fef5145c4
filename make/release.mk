# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Release

DIST ?= dist
RELEASE := $(abspath $(BIN))/release
PLATFORMS := linux-amd64 linux-arm64

.PHONY: release
release: $(TOOLS)/helm ## Build a release into dist/: binaries, images, chart, SBOMs and checksums (TAG=v0.1.0), and sign it (SIGN_KEY=cosign.key).
	rm -rf $(RELEASE) $(DIST)
	@$(foreach platform,$(PLATFORMS),GOOS=$(word 1,$(subst -, ,$(platform))) GOARCH=$(word 2,$(subst -, ,$(platform))) \
		$(MAKE) build build-controllers BIN=$(RELEASE)/$(platform) &&) true
	$(pack_images) -binaries '$(PLATFORMS:%=$(RELEASE)/%)' -output $(RELEASE)/images
	GOWORK=off go run -C tools/release . -version $(VERSION) -created $(COMMIT_TIME) -binaries $(RELEASE) -platforms '$(PLATFORMS)' \
		-services '$(SERVICES)' -commands '$(COMMANDS)' \
		-images $(RELEASE)/images -chart $(abspath deploy/helm/tripod) -helm $(abspath $(TOOLS)/helm) \
		-documents '$(abspath LICENSE README.md)' -output $(abspath $(DIST))
	$(if $(SIGN_KEY),GOWORK=off go run -C tools/sign . -key $(abspath $(SIGN_KEY)) $(abspath $(DIST)))

.PHONY: verify-release
verify-release: ## Verify that the project's workflow signed the release in DIST (TAG=v0.1.0), or that a key did (KEY=cosign.pub), and its checksums.
	GOWORK=off go run -C tools/sign . verify $(if $(KEY),-key $(abspath $(KEY)),-version $(VERSION)) \
		$(if $(TRUSTED_ROOT),-trusted-root $(abspath $(TRUSTED_ROOT))) $(abspath $(DIST))
