#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# generate-proto.sh DIR: generates Go from the contracts in proto/ into DIR, in place of what was generated there before.
set -euo pipefail

find "$1" -name '*.pb.go' -delete
bin/tools/buf generate proto --template proto/buf.gen.yaml --output "$1"
