#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# generate-types.sh FOLDER [PACKAGE] COPY: generates deep copies and OpenAPI definitions of the types in the folders v* of FOLDER, in COPY, which is
# FOLDER or a copy of it. With PACKAGE, it generates the OpenAPI definitions of the types of this package, which another module has.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
module=$(sed -n 's/^module //p' "$root/go.mod")
copy=$(realpath "${!#}")
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
generate() {
	"$root/hack/alone.sh" "$work" "$root/bin/tools/$1" --go-header-file "$root/hack/boilerplate.go.txt" "${@:2}" "${versions[@]}"
}
schemas=(--output-dir openapi --output-pkg "$module/$1/openapi" --output-file zz_generated.openapi.go --report-filename /dev/null)
if (($# == 3)); then
	versions=("$2")
	generate openapi-gen "${schemas[@]}"
	cp openapi/zz_generated.openapi.go "$copy/openapi"
	exit
fi
versions=()
for folder in v*/; do
	versions+=("./${folder%/}")
done
generate deepcopy-gen --output-file zz_generated.deepcopy.go
generate openapi-gen "${schemas[@]}" --output-model-name-file zz_generated.model_name.go
for folder in "${versions[@]}" openapi; do
	cp "$folder"/zz_generated.* "$copy/$folder"
done
