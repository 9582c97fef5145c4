// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

// ownerOf returns whose a template of a policy is. It may run anew once the policy is another one.
func ownerOf(policy *v1alpha1.ClusterImportPolicy, source *unstructured.Unstructured) templates.Owner {
	owner := templates.Owner{Policy: string(policy.UID), Object: fmt.Sprint(policy.Generation)}
	if source != nil {
		owner.Object += " " + source.GetNamespace() + "/" + source.GetName()
	}
	return owner
}

// validate returns the reason of the condition Validated, and what is wrong with the syntax of the templates of a policy.
func (p *Policies) validate(ctx context.Context, policy *v1alpha1.ClusterImportPolicy) (reason string, err error) {
	spec := &policy.Spec
	type field struct{ reason, name, text string }
	fields := []field{
		{"FailedParseLifecycleName", "nameTemplate", spec.NameTemplate},
		{"FailedParseSourceSelector", "selectorTemplate", spec.Source.SelectorTemplate},
		{"InvalidPolicy", "template", spec.Template},
		{"InvalidPolicy", "creationCondition", spec.CreationCondition},
	}
	for _, r := range spec.References {
		fields = append(fields,
			field{"InvalidPolicy", "namespaceTemplate of " + r.Key, r.NamespaceTemplate},
			field{"InvalidPolicy", "nameTemplate of " + r.Key, r.NameTemplate})
	}
	for _, f := range fields {
		if err := p.templates.Check(ctx, ownerOf(policy, nil), f.text); err != nil {
			return f.reason, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return "", nil
}
