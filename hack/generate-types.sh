#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# generate-types.sh FOLDER COPY: generates deep copies and OpenAPI definitions of the types in the folders v* of FOLDER, in COPY, which is
# FOLDER or a copy of it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
module=$(sed -n 's/^module //p' "$root/go.mod")
copy=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp -r "$copy/." "$work"
cd "$work"
# A folder of the main module becomes a module here, with the same requirements: generators load packages by their paths.
if [[ ! -f go.mod ]]; then
	cp "$root/go.sum" .
	sed "s|^module .*|module $module/$1|" "$root/go.mod" >go.mod
	go mod edit $(sed -n "s|^\t\($module/[a-z]*\) => .*|-dropreplace=\1|p" go.mod)
fi
versions=()
for folder in v*/; do
	versions+=("./${folder%/}")
done
generate() {
	"$root/hack/alone.sh" "$work" "$root/bin/tools/$1" --go-header-file "$root/hack/boilerplate.go.txt" "${@:2}" "${versions[@]}"
}
generate deepcopy-gen --output-file zz_generated.deepcopy.go
generate openapi-gen --output-dir openapi --output-pkg "$module/$1/openapi" --output-file zz_generated.openapi.go \
	--output-model-name-file zz_generated.model_name.go --report-filename /dev/null
for folder in "${versions[@]}" openapi; do
	cp "$folder"/zz_generated.* "$copy/$folder"
done
