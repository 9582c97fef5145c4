# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

##@ Build and run

.PHONY: build
build: ## Build tripod, what it starts, and the services, tripod-aggregator and so on, into bin/.
	@mkdir -p $(BIN)
	@$(foreach command,$(COMMANDS),echo '$(BIN)/$(command)' && $(GO_BUILD) -o $(BIN)/$(command) ./cmd/$(command) &&) true
	@$(foreach service,$(LINKED_SERVICES),ln -sfn tripod-services $(BIN)/tripod-$(service) &&) true
	@$(foreach service,$(OWN_SERVICES),echo '$(BIN)/tripod-$(service)' && $(GO_BUILD) -o $(BIN)/tripod-$(service) ./services/$(service) &&) true

.PHONY: controllers build-controllers
controllers: build-controllers $(BIN)/kwok ## Build what `tripod up --controllers` and `--kwok-nodes` need: tripod-controllers and kwok.
build-controllers:
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/tripod-controllers ./cmd/tripod-controllers

# Where an image is to be pushed belongs to its name: IMAGE_REPOSITORY=ghcr.io/you.
# The default names no registry: nodes find such images only if these were loaded.
IMAGE_REPOSITORY ?= localhost/tripod-k8s
pack_images = GOWORK=off go run -C tools/programs ./images -services $(abspath $(SERVICE_LIST)) -commands '$(COMMANDS)' -repository $(IMAGE_REPOSITORY) -version $(VERSION) -revision $(COMMIT) -created $(COMMIT_TIME)
.PHONY: wardle
wardle: ## Build the example of an API service into bin/wardle.
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/wardle ./examples/wardle

.PHONY: notes
notes: # The API services that keep their objects elsewhere than in etcd, for tests.
	@mkdir -p $(BIN)
	@$(foreach storage,memory files sql,$(GO_BUILD) -o $(BIN)/notes-$(storage) ./examples/storages/$(storage) &&) true

.PHONY: images
images: build ## Pack the binaries into container images, bin/images/NAME.tar (IMAGE_REPOSITORY=localhost/tripod-k8s); the tag is in bin/images/tag.
	$(pack_images) -binaries $(abspath $(BIN)) -output $(abspath $(BIN))/images

# Kamaji names the images of a cluster by its version of Kubernetes.
DROP_IN_TAG ?= $(KUBE_VERSION)
.PHONY: image-kube-apiserver
image-kube-apiserver: build ## Pack the drop-in into bin/images/kube-apiserver/kube-apiserver.tar, an image whose tag is the version of Kubernetes (IMAGE_REPOSITORY=registry.example.com/team KUBE=1.36).
	$(pack_images) -drop-in $(DROP_IN_TAG) -binaries $(abspath $(BIN)) -output $(abspath $(BIN))/images/kube-apiserver

.PHONY: up
up: build ## Build, then run Tripod and an etcd on this machine until Ctrl-C (UP_ARGS="--port 7443 ...").
	@exec $(BIN)/tripod up $(UP_ARGS)

.PHONY: clean
clean: ## Remove what was built; data directories stay.
	rm -rf $(BIN) $(DIST) artifacts
