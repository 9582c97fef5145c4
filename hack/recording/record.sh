#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# Records hack/recording/session.sh as an animated picture, OUTPUT. It needs asciinema, jq and npx (apt-get install asciinema jq npm), and port 6443.
set -euo pipefail
cd "$(dirname "$0")/../.."
output=${1:?name the file for the picture}
for program in asciinema jq npx; do
	command -v "$program" >/dev/null || { echo "the recording needs $program: apt-get install asciinema jq npm" >&2; exit 1; }
done
home=$(mktemp -d)
trap 'HOME=$home bin/tripod down >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
columns=100 rows=30
HOME=$home PATH=$PWD/bin:$PATH TERM=xterm-256color asciinema rec --quiet --overwrite --cols $columns --rows $rows --idle-time-limit 1.5 \
	--command hack/recording/session.sh "$home/session.cast"
sed -i "s|$home|/home/you|g" "$home/session.cast"
npx --yes svg-term-cli@2.1.1 --in "$home/session.cast" --out "$output" --width $columns --height $rows --window --no-cursor
