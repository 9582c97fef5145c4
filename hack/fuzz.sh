#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs each fuzz target for a time, one after the other: hack/fuzz.sh TIME [PATTERN]. Go writes an input that fails into testdata/fuzz of the
# package, where it becomes a test case. All targets run, and the exit code says whether one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
while IFS=: read -r file target; do
	[[ $target =~ ${2:-.} ]] || continue
	package=./$(dirname "$file")
	echo "$target in $package"
	go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$1" ${FUZZ_ARGS:-} "$package" || failed+=("$target in $package")
done < <(git grep -oE --untracked '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | sed 's/func //' | sort)

((${#failed[@]})) || exit 0
printf 'failed: %s\n' "${failed[@]}" >&2
exit 1
