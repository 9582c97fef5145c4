// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package paramkinds lets the other services read the parameters of admission policies.
//
// Policies also apply to custom resources and APIServices, and may take parameters of any kind. A service that could read all kinds could
// read all Secrets. So a service may read a kind only while a policy names it as paramKind. That reveals nothing to the author of the
// policy: kube-apiserver demands that the author can read all objects of the kind.
package paramkinds

import (
	"context"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/component-base/featuregate"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/list"
)

// Another service may see a new policy a moment before this replica of core does. So a request waits before it is refused.
const (
	informerLag  = time.Second
	pollInterval = 20 * time.Millisecond
)

// readVerbs are the verbs of an informer.
var readVerbs = []string{"get", "list", "watch"}

// Authorizer allows services to read the kinds that policies name.
type Authorizer struct {
	validating listers.ValidatingAdmissionPolicyLister
	// mutating is nil if the feature gate MutatingAdmissionPolicy is off.
	mutating listers.MutatingAdmissionPolicyLister
}

var _ trust.Unconditional = &Authorizer{}

// New returns an authorizer over the informers of core's own admission.
func New(factory informers.SharedInformerFactory, gates featuregate.FeatureGate) *Authorizer {
	v1 := factory.Admissionregistration().V1()
	a := &Authorizer{validating: v1.ValidatingAdmissionPolicies().Lister()}
	if gates.Enabled(features.MutatingAdmissionPolicy) {
		a.mutating = v1.MutatingAdmissionPolicies().Lister()
	}
	return a
}

// Authorize implements trust.Unconditional. It never denies.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	switch trust.ServiceOf(attributes.GetUser()) {
	case "", trust.UserOf(list.Core):
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !attributes.IsResourceRequest() || attributes.GetSubresource() != "" || !slices.Contains(readVerbs, attributes.GetVerb()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	resource := schema.GroupVersionResource{
		Group: attributes.GetAPIGroup(), Version: attributes.GetAPIVersion(), Resource: attributes.GetResource(),
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, informerLag, true, func(context.Context) (bool, error) { return a.named(resource) })
	if err != nil {
		//nolint:nilerr // a timeout means that no policy names it
		return authorizer.DecisionNoOpinion, "no admission policy takes parameters of this kind", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// named reports whether a policy takes parameters from a resource.
func (a *Authorizer) named(resource schema.GroupVersionResource) (bool, error) {
	validating, err := a.validating.List(labels.Everything())
	if err != nil {
		return false, err
	}
	for _, policy := range validating {
		if isOf(policy.Spec.ParamKind, resource) {
			return true, nil
		}
	}
	if a.mutating == nil {
		return false, nil
	}
	mutating, err := a.mutating.List(labels.Everything())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(mutating, func(policy *admissionregistrationv1.MutatingAdmissionPolicy) bool {
		return isOf(policy.Spec.ParamKind, resource)
	}), nil
}

// isOf reports whether resource is the plural of kind. The guess holds for all built-in kinds.
func isOf(kind *admissionregistrationv1.ParamKind, resource schema.GroupVersionResource) bool {
	if kind == nil {
		return false
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	return plural == resource
}
