// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priority orders a group-version in discovery, as spec.groupPriorityMinimum and
// spec.versionPriority of its APIService do.
type Priority struct {
	// Group orders the group among groups, highest first.
	Group int32
	// Version orders the version within its group, highest first.
	Version int32
}

// crdPriority is the priority of every CRD group-version, low in the list and ordered by version
// name (k8s.io/kubernetes/pkg/controlplane/controller/crdregistration).
var crdPriority = Priority{Group: 1000, Version: 100}

// PriorityOf returns the priority that kube-apiserver gives to a group-version: that of its table
// for a built-in one, else that of custom resources.
func PriorityOf(gv schema.GroupVersion) Priority {
	if priority, ok := apiVersionPriorities[gv]; ok {
		return priority
	}
	return crdPriority
}

// Builtin reports whether a group is in kube-apiserver's table of built-in APIs.
func Builtin(group string) bool {
	return builtinGroups[group]
}

var builtinGroups = func() map[string]bool {
	groups := map[string]bool{}
	for gv := range apiVersionPriorities {
		groups[gv.Group] = true
	}
	return groups
}()
