// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build kube1.36

package member

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ofVersion returns the kinds that this version of Kubernetes has. Search knows those of newer ones, too.
func ofVersion(all, want map[schema.GroupResource]builtInKind) map[schema.GroupResource]builtInKind {
	known := maps.Clone(all)
	maps.DeleteFunc(known, func(resource schema.GroupResource, _ builtInKind) bool { _, exists := want[resource]; return !exists })
	return known
}
