// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package member

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ofVersion returns the kinds that this version of Kubernetes may have: all.
func ofVersion(all, _ map[schema.GroupResource]builtInKind) map[schema.GroupResource]builtInKind {
	return all
}
