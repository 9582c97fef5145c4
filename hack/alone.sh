#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs a command in the folder of one of the modules of this repository with the versions that strangers get: those that the module and our modules
# that it requires ask for, and not those of the whole workspace (go.work). Our modules are taken from here. They may be required by others, so their
# go.mod files have no replace lines.
#
#   hack/alone.sh FOLDER COMMAND [ARGUMENT...]
#   hack/alone.sh FOLDER tidy                    tidies go.mod and go.sum
#   hack/alone.sh FOLDER tidy --check            fails if they are not tidy
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" && cd "$1"
shift
own=(apiservice base proto)
module=github.com/tripod-k8s/tripod

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
if [[ $1 != tidy ]]; then
	{
		echo 'go 1.26.0'
		for folder in "${own[@]}"; do
			version=$(sed -n "s|^\t$module/$folder \(v[^ ]*\).*|\1|p" "$root"/{apiservice,base,examples/wardle}/go.mod | sort -u)
			echo "use $root/$folder"
			echo "replace $module/$folder $version => $root/$folder"
		done
		[[ " ${own[*]} " == *" ${PWD#"$root"/} "* ]] || echo "use $PWD"
	} >"$work/go.work"
	GOWORK=$work/go.work "$@"
	exit
fi

# go mod tidy knows nothing of workspaces.
export GOWORK=off
cp go.mod "$work/go.mod"
cp go.sum "$work/go.sum" 2>/dev/null || true
replaced=()
if [[ $PWD != "$root" ]]; then
	for folder in "${own[@]}"; do
		replaced+=("$module/$folder=$root/$folder")
	done
	go mod edit "${replaced[@]/#/-replace=}" "$work/go.mod"
fi
go mod tidy -modfile="$work/go.mod"
for line in "${replaced[@]}"; do
	go mod edit -dropreplace="${line%%=*}" "$work/go.mod"
done
if [[ ${2:-} == --check ]]; then
	diff -u go.mod "$work/go.mod" && diff -u go.sum "$work/go.sum"
else
	cp "$work/go.mod" "$work/go.sum" .
fi
