// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

// plan is a policy whose templates have the right syntax, with the versions that the cluster has.
type plan struct {
	policy     *v1alpha1.ClusterImportPolicy
	source     schema.GroupVersionResource
	references []v1alpha1.LifecycleReference
	templates  *templates.Templates
}

// plan returns the plan of a policy, or the reason of the condition Validated and what is wrong.
func (p *Policies) plan(ctx context.Context, policy *v1alpha1.ClusterImportPolicy) (made *plan, reason string, err error) {
	spec := &policy.Spec
	if reason, err = p.validate(ctx, policy); err != nil {
		return nil, reason, err
	}
	made = &plan{policy: policy, templates: p.templates}
	if made.source, err = p.resources.version(spec.Source.Group, spec.Source.Resource, spec.Source.Versions); err != nil {
		return nil, "FailedNegotiateSourceResource", err
	}
	for _, r := range spec.References {
		resource, err := p.resources.version(r.Group, r.Resource, r.Versions)
		if err != nil {
			return nil, "FailedNegotiateReferenceResource", fmt.Errorf("%s: %w", r.Key, err)
		}
		made.references = append(made.references, v1alpha1.LifecycleReference{Reference: r.Reference, Version: resource.Version})
	}
	return made, "", nil
}

func (p *plan) object(source *unstructured.Unstructured) v1alpha1.Object {
	return v1alpha1.Object{
		Group: p.source.Group, Version: p.source.Version, Resource: p.source.Resource, Namespace: source.GetNamespace(), Name: source.GetName(),
	}
}

// name returns the name of the lifecycle of a source. It is empty if the source does not count.
func (p *plan) name(ctx context.Context, source *unstructured.Unstructured) (string, error) {
	data, owner := map[string]any{"source": source.Object}, ownerOf(p.policy, source)
	if selector := p.policy.Spec.Source.SelectorTemplate; selector != "" {
		if counts, err := p.templates.Holds(ctx, owner, selector, data); err != nil || !counts {
			return "", err
		}
	}
	name, err := p.templates.Render(ctx, owner, p.policy.Spec.NameTemplate, data)
	if err != nil {
		return "", err
	}
	name = strings.TrimSpace(name)
	if wrong := apivalidation.NameIsDNSSubdomain(name, false); len(wrong) > 0 {
		return "", fmt.Errorf("nameTemplate makes %q: %s", name, strings.Join(wrong, ", "))
	}
	return name, nil
}

func (p *plan) lifecycle(name string, source v1alpha1.Object) *v1alpha1.PediaClusterLifecycle {
	l := &v1alpha1.PediaClusterLifecycle{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.LifecycleKind},
		Spec:     v1alpha1.LifecycleSpec{Source: source, References: p.references, Conversion: p.policy.Spec.Conversion},
	}
	l.Name = name
	l.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.PolicyKind, Name: p.policy.Name, UID: p.policy.UID, Controller: new(true),
	}}
	return l
}
