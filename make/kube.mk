# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# With KUBE=1.X, make runs again in a copy of this folder that has another version of Kubernetes. docs/kubernetes-versions.md is the page about it.

ifeq ($(filter $(KUBE),$(OLDER_KUBES)),)
$(error KUBE=$(KUBE): this version of Tripod builds with Kubernetes $(OWN_KUBE) and $(OLDER_KUBES) only (docs/kubernetes-versions.md))
endif

# What repairs files repairs those in kube/.
SAVES := $(filter fix fix-% refresh-% bump-kubernetes,$(MAKECMDGOALS))

.PHONY: $(MAKECMDGOALS) in-the-copy
$(MAKECMDGOALS): in-the-copy ; @:
in-the-copy:
	@go run -trimpath ./hack/kube -minor $(KUBE) $(if $(SAVES),-save) -- $(MAKE) --no-print-directory $(MAKECMDGOALS)
