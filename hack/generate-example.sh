#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# generate-example.sh FOLDER: generates deep copies and OpenAPI definitions of the types in the folders v* of an API service.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
versions=()
for folder in v*/; do
	versions+=("./${folder%/}")
done
generate() {
	"$root/hack/alone.sh" "$PWD" "$root/bin/tools/$1" --go-header-file "$root/hack/boilerplate.go.txt" "${@:2}" "${versions[@]}"
}
generate deepcopy-gen --output-file zz_generated.deepcopy.go
generate openapi-gen --output-dir openapi --output-pkg "$(sed -n 's/^module //p' go.mod)/openapi" --output-file zz_generated.openapi.go \
	--output-model-name-file zz_generated.model_name.go --report-filename /dev/null
