# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# Tools are no part of the workspace, so that their requirements do not bend those of Tripod. Those that agree with one another share tools/go.mod.
go_build_tool = GOWORK=off go build -C $(1) -trimpath -ldflags "-s -w" -o $(abspath $@) $(2)

$(TOOLS)/gotestsum: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,gotest.tools/gotestsum)

$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(TOOLS)/buf: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,github.com/bufbuild/buf/cmd/buf)

$(TOOLS)/protoc-gen-go-grpc: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

$(TOOLS)/controller-gen: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,sigs.k8s.io/controller-tools/cmd/controller-gen)

$(ASSETS)/proxy-%: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,sigs.k8s.io/apiserver-network-proxy/cmd/$*)

$(ASSETS)/kine: tools/kine/go.mod tools/kine/go.sum
	$(call go_build_tool,tools/kine,github.com/k3s-io/kine)

$(BIN)/kwok $(ASSETS)/kwok: tools/go.mod tools/go.sum
	$(call go_build_tool,tools,sigs.k8s.io/kwok/cmd/kwok)

# helm 3 needs an older k8s.io/kubectl than kwok.
$(TOOLS)/helm: tools/helm/go.mod tools/helm/go.sum
	$(call go_build_tool,tools/helm,helm.sh/helm/v3/cmd/helm)

# The S3 server for tests.
$(TOOLS)/versitygw: tools/s3server/go.mod tools/s3server/go.sum
	$(call go_build_tool,tools/s3server,github.com/versity/versitygw/cmd/versitygw)

# Only e2e-registry needs them: a release is signed and published without cosign, which has 1,700 packages.
$(TOOLS)/cosign: tools/cosign/go.mod tools/cosign/go.sum
	$(call go_build_tool,tools/cosign,github.com/sigstore/cosign/v3/cmd/cosign)

$(TOOLS)/crane: tools/cosign/go.mod tools/cosign/go.sum
	$(call go_build_tool,tools/cosign,github.com/google/go-containerregistry/cmd/crane)

# Generators have the version of Kubernetes.
$(TOOLS)/deepcopy-gen: tools/codegen/go.mod tools/codegen/go.sum
	$(call go_build_tool,tools/codegen,k8s.io/code-generator/cmd/deepcopy-gen)

$(TOOLS)/openapi-gen: tools/codegen/go.mod tools/codegen/go.sum
	$(call go_build_tool,tools/codegen,k8s.io/kube-openapi/cmd/openapi-gen)

# From the main module: what it generates is for the very protobuf runtime that the services link.
$(TOOLS)/protoc-gen-go: go.mod
	go build -trimpath -ldflags "-s -w" -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
