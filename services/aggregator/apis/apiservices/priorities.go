// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Priority is the order of a group-version in discovery.
type Priority struct {
	// Group is spec.groupPriorityMinimum of the APIService: groups with a higher value come first.
	Group int32
	// Version is spec.versionPriority of the APIService: in a group, versions with a higher value come first.
	Version int32
}

// crdPriority is the priority of each group-version of CRDs, as in kube-apiserver
// (k8s.io/kubernetes/pkg/controlplane/controller/crdregistration). They come after built-in groups.
var crdPriority = Priority{Group: 1000, Version: 100}

// PriorityOf returns the priority that kube-apiserver gives a group-version. Built-in ones are in a table; all others have the priority of
// CRDs.
func PriorityOf(gv schema.GroupVersion, backend string) Priority {
	if priority, ok := apiVersionPriorities[gv]; ok && (backend == upstream.Core || backend == upstream.Extensions && gv == crdGroupVersion) {
		return priority
	}
	return crdPriority
}

// mayBeCustom returns whether a CustomResourceDefinition may define a group-version that core does not serve.
func mayBeCustom(gv schema.GroupVersion) bool {
	return gv != crdGroupVersion && gv.Group != apiregistration.GroupName &&
		len(validation.IsDNS1123Subdomain(gv.Group)) == 0 && len(validation.IsDNS1035Label(gv.Version)) == 0
}

// Builtin returns whether a group is in kube-apiserver's table of built-in groups.
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
