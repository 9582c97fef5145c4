#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# verify-generated.sh PATH COMMAND...: fails when `COMMAND... COPY` changes a copy of PATH, a file or a directory.
set -euo pipefail

path=$1
shift
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
copy=$fresh/${path##*/}
cp -r "$path" "$copy"
"$@" "$copy"
diff -ruN "$path" "$copy" || {
  echo "$path is out of date; run \`make fix-generated\`" >&2
  exit 1
}
