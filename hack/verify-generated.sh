#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# verify-generated.sh FILE COMMAND...: fails when `COMMAND... OUTPUT` writes something else than FILE.
set -euo pipefail

file=$1
shift
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
"$@" "$fresh"
diff -u "$file" "$fresh" || {
  echo "$file is out of date; run \`make fix-generated\`" >&2
  exit 1
}
