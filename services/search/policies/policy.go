// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
)

// maxMessage bounds what a condition tells of an error.
const maxMessage = 1024

// setCondition sets a condition to true, or to false if something is wrong.
func setCondition(conditions *[]metav1.Condition, generation int64, kind, reason string, wrong error) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: generation}
	if wrong != nil {
		text := wrong.Error()
		c.Status, c.Message = metav1.ConditionFalse, strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
	}
	meta.SetStatusCondition(conditions, c)
}

// applyPolicy makes lifecycles of the sources of a policy, and returns its conditions. The reasons are those of Clusterpedia.
func (p *Policies) applyPolicy(ctx context.Context, policy *v1alpha1.ClusterImportPolicy, s *state) []metav1.Condition {
	conditions := slices.Clone(policy.Status.Conditions)
	plan, reason, err := p.plan(ctx, policy)
	if err != nil {
		meta.RemoveStatusCondition(&conditions, v1alpha1.Reconciling)
		s.unread[policy.UID] = true
		setCondition(&conditions, policy.Generation, v1alpha1.Validated, reason, err)
		return conditions
	}
	setCondition(&conditions, policy.Generation, v1alpha1.Validated, "Success", nil)
	sources, err := p.objects.List(plan.source)
	if err != nil {
		reason = "FailedListSourceResources"
		switch {
		case errors.Is(err, hub.ErrTooMany): // it says so until there are fewer
			reason = "TooManySourceResources"
			s.unread[policy.UID] = true
		case errors.Is(err, hub.ErrUnread):
			reason = "WaitResourceSynced"
			s.unread[policy.UID] = true
		}
		setCondition(&conditions, policy.Generation, v1alpha1.Reconciling, reason, err)
		return conditions
	}
	reason = "ReconcileSourceResourceAndLifecycle"
	s.refused[policy.UID], err = p.makeLifecycles(ctx, plan, sources, s)
	if refused := s.refused[policy.UID]; err != nil {
		reason = "FailedReconcile"
	} else if refused > 0 {
		reason, err = tooManyClusters, fmt.Errorf("search makes at most %d PediaClusters of the sources of a policy in a namespace "+
			"(--import-max-clusters): it makes none of %d more sources", p.most, refused)
	} else if n := p.beyond[policy.UID]; n > 0 {
		reason, err = tooManyReferences, fmt.Errorf("search follows %d references of all policies, of which the sources of a policy in a "+
			"namespace have a share: those of %d sources of this policy are not followed", p.objects.Most, n)
	}
	setCondition(&conditions, policy.Generation, v1alpha1.Reconciling, reason, err)
	return conditions
}

// makeLifecycles makes the lifecycle of each source, and removes those of sources that do not count any more.
// Those in a namespace may be too many: it returns how many have none.
func (p *Policies) makeLifecycles(ctx context.Context, plan *plan, sources []*unstructured.Unstructured, s *state) (refused int, _ error) {
	slices.SortFunc(sources, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	var failures []error
	wanted := map[string]v1alpha1.Object{}
	failed := map[v1alpha1.Object]bool{}
	has := plan.counts(s.lifecycles)
	live := map[v1alpha1.Object]bool{}
	for _, source := range sources {
		live[plan.object(source)] = true
	}
	for _, source := range sources {
		object := plan.object(source)
		name, err := plan.name(ctx, source)
		if other, taken := wanted[name]; err == nil && taken && name != "" {
			err = fmt.Errorf("the name %s is that of %s/%s already", name, other.Namespace, other.Name)
		}
		if err != nil {
			failed[object] = true
			failures = append(failures, fmt.Errorf("%s/%s: %w", object.Namespace, object.Name, err))
			continue
		}
		if name == "" {
			continue
		}
		made, former := plan.lifecycle(name, object), s.lifecycles[name]
		// Another source keeps its name as long as it is there. Afterwards the lifecycle goes, so that nothing of the other cluster is taken
		// over.
		if former != nil && metav1.IsControlledBy(former, plan.policy) && former.Spec.Source != object {
			if other := former.Spec.Source; live[other] {
				failures = append(failures, fmt.Errorf("%s/%s: the name %s is that of %s/%s already",
					object.Namespace, object.Name, name, other.Namespace, other.Name))
			}
			failed[object] = true
			continue
		}
		wanted[name] = object
		if former == nil {
			if has[object.Namespace] >= p.most {
				refused++
				continue
			}
			has[object.Namespace]++
		}
		if written, err := p.makeLifecycle(ctx, made, former); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
			s.unclear[name] = true
		} else {
			s.made[name] = origin{policy: plan.policy, source: source, late: written}
		}
	}
	for name, lifecycle := range s.lifecycles {
		if _, still := wanted[name]; still || !metav1.IsControlledBy(lifecycle, plan.policy) {
			continue
		}
		// A source whose templates fail may only be for a moment as it is, so what was made of it stays.
		if failed[lifecycle.Spec.Source] {
			s.unclear[name] = true
		} else {
			p.remove(ctx, lifecycleResource, &lifecycle.ObjectMeta)
		}
	}
	return refused, firstOf(failures)
}

// counts returns how many lifecycles the policy has made of the sources of each namespace.
func (p *plan) counts(lifecycles map[string]*v1alpha1.PediaClusterLifecycle) map[string]int {
	has := map[string]int{}
	for _, lifecycle := range lifecycles {
		if metav1.IsControlledBy(lifecycle, p.policy) {
			has[lifecycle.Spec.Source.Namespace]++
		}
	}
	return has
}

// firstOf names a few failures and counts the others.
func firstOf(failures []error) error {
	const named = 5
	if more := len(failures) - named; more > 0 {
		failures = append(failures[:named:named], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failures...)
}

// makeLifecycle creates a lifecycle, or changes the one that is there, and reports whether it did. It adopts one without a controller.
func (p *Policies) makeLifecycle(ctx context.Context, wanted, has *v1alpha1.PediaClusterLifecycle) (written bool, err error) {
	if has != nil {
		owner := metav1.GetControllerOf(has)
		switch {
		case owner == nil:
			wanted.OwnerReferences = append(slices.Clone(has.OwnerReferences), wanted.OwnerReferences...)
		case owner.UID != wanted.OwnerReferences[0].UID:
			return false, fmt.Errorf("%s %s has made it", owner.Kind, owner.Name)
		case equality.Semantic.DeepEqual(has.Spec, wanted.Spec):
			return false, nil
		default:
			wanted.OwnerReferences = has.OwnerReferences
		}
		owners := wanted.OwnerReferences
		has.ObjectMeta.DeepCopyInto(&wanted.ObjectMeta)
		wanted.OwnerReferences = owners
	}
	object, err := asUnstructured(wanted)
	if err != nil {
		return false, err
	}
	if has == nil {
		_, err = p.client.Resource(lifecycleResource).Create(ctx, object, metav1.CreateOptions{})
	} else {
		_, err = p.client.Resource(lifecycleResource).Update(ctx, object, metav1.UpdateOptions{})
	}
	return true, err
}
