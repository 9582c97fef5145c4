// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

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

// PriorityOf returns the priority that kube-apiserver gives to a group-version of a backend: that of its table
// for a built-in one, else that of custom resources.
func PriorityOf(gv schema.GroupVersion, backend string) Priority {
	if priority, ok := apiVersionPriorities[gv]; ok && (backend != upstream.Extensions || gv == crdGroupVersion) {
		return priority
	}
	return crdPriority
}

// mayBeCustom reports whether a CustomResourceDefinition can have a group-version, if core does not have it.
func mayBeCustom(gv schema.GroupVersion) bool {
	return gv != crdGroupVersion && gv.Group != apiregistration.GroupName &&
		len(validation.IsDNS1123Subdomain(gv.Group)) == 0 && len(validation.IsDNS1035Label(gv.Version)) == 0
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
