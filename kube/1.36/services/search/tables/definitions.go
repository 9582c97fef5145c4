// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/registry/rest"
)

// definitions has the columns of CustomResourceDefinitions.
var definitions = rest.NewDefaultTableConvertor(apiextensions.Resource("customresourcedefinitions"))
