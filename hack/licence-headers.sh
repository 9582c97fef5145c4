#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# licence-headers.sh [--fix]: fails if a Go, proto or shell file lacks the licence header, or adds it.
set -euo pipefail

missing=()
while IFS= read -r -d '' file; do
  head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || missing+=("$file")
done < <(find . \( -path ./bin -o -path ./.git -o -path ./.tripod -o -path ./artifacts \) -prune -o \
  -type f \( -name '*.go' -o -name '*.proto' -o -name '*.sh' -o -path './.ci/run' -o -name Makefile -o -name '*.mk' \) -print0)

[[ ${#missing[@]} -gt 0 ]] || exit 0
if [[ ${1:-} != --fix ]]; then
  printf 'no licence header: %s\n' "${missing[@]}" >&2
  echo 'run `make fix-licences`' >&2
  exit 1
fi
for file in "${missing[@]}"; do
  case $file in
  *.go | *.proto) prefix='//' ;;
  *) prefix='#' ;;
  esac
  header="$prefix Copyright The Tripod Authors.
$prefix SPDX-License-Identifier: Apache-2.0
"
  if head -n 1 "$file" | grep -q '^#!'; then
    content="$(head -n 1 "$file")
$header
$(tail -n +2 "$file")"
  else
    content="$header
$(cat "$file")"
  fi
  printf '%s\n' "$content" >"$file"
done
