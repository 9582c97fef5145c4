// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"

// definitions has the columns of CustomResourceDefinitions.
var definitions = tableconvertor.New()
