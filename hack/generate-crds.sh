#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# generate-crds.sh FOLDER: generates the CustomResourceDefinitions of search, in FOLDER.
set -euo pipefail
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
types=./services/search/apis
bin/tools/controller-gen crd:headerFile=hack/boilerplate.yaml.txt paths="$types/cluster/..." paths="$types/policy/..." paths="$types/saved/..." \
  output:crd:dir="$folder"
