#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# workspace-sums.sh FILE: writes what belongs into go.work.sum, the checksums that the workspace needs and no go.sum has, into FILE.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
# The folders in go.work are relative to it.
sed -e "s|^\t\.$|\t$root|" -e "s|^\t\./|\t$root/|" "$root/go.work" >"$work/go.work"
export GOWORK=$work/go.work
(
	cd "$root"
	go list -m all
	go list -deps -test $(sed -n -e 's|^\t\.$|./...|p' -e 's|^\t\(\./.*\)|\1/...|p' go.work)
) >/dev/null
cp "$work/go.work.sum" "$1"
