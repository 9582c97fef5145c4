#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs a command in the folder of one of the modules of this repository as if the other modules were released: a copy of its go.mod replaces
# them by what is here. Strangers may require these modules, so their own go.mod has no replace lines.
#
#   hack/alone.sh FOLDER COMMAND [ARGUMENT...]   GOFLAGS names the copy
#   hack/alone.sh FOLDER tidy                    tidies go.mod and go.sum
#   hack/alone.sh FOLDER tidy --check            fails if they are not tidy
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/$1"
shift

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp go.mod "$work/go.mod"
cp go.sum "$work/go.sum" 2>/dev/null || true
others=$(sed -n 's|^\t\(github.com/tripod-k8s/[^ ]*\) => \./\(.*\)|\1=\2|p' "$root/go.mod")
if [[ $PWD != "$root" ]]; then
	for other in $others; do
		go mod edit -replace="${other%%=*}=$root/${other#*=}" "$work/go.mod"
	done
fi
if [[ $1 != tidy ]]; then
	GOFLAGS="${GOFLAGS:-} -modfile=$work/go.mod" "$@"
	exit
fi

go mod tidy -modfile="$work/go.mod"
if [[ $PWD != "$root" ]]; then
	for other in $others; do
		go mod edit -dropreplace="${other%%=*}" "$work/go.mod"
	done
fi
if [[ ${2:-} == --check ]]; then
	diff -u go.mod "$work/go.mod" && diff -u go.sum "$work/go.sum"
else
	cp "$work/go.mod" "$work/go.sum" .
fi
