# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

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
	GOWORK=off go run -C tools/release . -version $(VERSION) -created $(COMMIT_TIME) -binaries $(RELEASE) -platforms '$(PLATFORMS)' \
		-images $(RELEASE)/images -chart $(abspath deploy/helm/tripod) -helm $(abspath $(TOOLS)/helm) \
		-documents '$(abspath LICENSE README.md)' -output $(abspath $(DIST))
