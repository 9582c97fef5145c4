// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

// maxMessage bounds the text of an error in a condition.
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
		s.unread[policy.UID] = true
		reason = "FailedListSourceResources"
		switch {
		case errors.Is(err, hub.ErrTooMany): // it says so until there are fewer
			reason = "TooManySourceResources"
		case errors.Is(err, hub.ErrUnread):
			reason = "WaitResourceSynced"
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

// named is a source with the name of what a policy makes of it.
type named struct {
	source *unstructured.Unstructured
	object v1alpha1.Object
	name   string
}

// names returns the sources of which the policy makes something, in their order, and why others have no name.
func (p *plan) names(ctx context.Context, sources []*unstructured.Unstructured) (all []named, failed map[v1alpha1.Object]error) {
	slices.SortFunc(sources, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	failed = map[v1alpha1.Object]error{}
	for _, source := range sources {
		object := p.object(source)
		name, err := p.name(ctx, source)
		switch {
		case err != nil:
			failed[object] = err
		case name != "":
			all = append(all, named{source, object, name})
		}
	}
	return all, failed
}

// makeLifecycles makes the lifecycle of each source, and removes those of sources that do not count any more.
// Those in a namespace may be too many: it returns how many have none.
func (p *Policies) makeLifecycles(ctx context.Context, plan *plan, sources []*unstructured.Unstructured, s *state) (refused int, _ error) {
	all, wrong := plan.names(ctx, sources)
	has, holders := plan.holders(all, wrong, s)
	failed, wanted := map[v1alpha1.Object]bool{}, map[string]bool{}
	var failures []error
	fails := func(object v1alpha1.Object, why error) {
		failed[object] = true
		failures = append(failures, fmt.Errorf("%s/%s: %w", object.Namespace, object.Name, why))
	}
	for _, object := range slices.SortedFunc(maps.Keys(wrong), compareObjects) {
		fails(object, wrong[object])
	}
	for _, one := range all {
		former, holder := s.lifecycles[one.name], holders[one.name]
		isOwn := former != nil && metav1.IsControlledBy(former, plan.policy)
		switch {
		case holder != one.object:
			fails(one.object, fmt.Errorf("the name %s is that of %s/%s already", one.name, holder.Namespace, holder.Name))
			continue
		case isOwn && former.Spec.Source != one.object:
			failed[one.object] = true // the lifecycle goes, so that nothing of the other cluster is taken over
			continue
		}
		if wanted[one.name] = true; !isOwn && !has.add(one, p.most) {
			refused++
			continue
		}
		if written, err := p.makeLifecycle(ctx, plan.lifecycle(one.name, one.object), former, s); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", one.name, err))
			s.unclear[one.name] = true
		} else {
			s.made[one.name] = origin{policy: plan.policy, source: one.source, late: written}
		}
	}
	for name, lifecycle := range s.lifecycles {
		switch {
		case wanted[name]:
		case failed[lifecycle.Spec.Source]:
			s.unclear[name] = true // a source whose templates fail may only be for a moment as it is, so what was made of it stays
		case metav1.IsControlledBy(lifecycle, plan.policy):
			p.remove(ctx, lifecycleResource, &lifecycle.ObjectMeta)
		}
	}
	return refused, firstOf(failures)
}

// counted are the names of PediaClusters that count in each namespace.
type counted map[string]map[string]bool

// add counts the name of a source, unless there are so many others in its namespace. It reports whether the name counts.
func (c counted) add(one named, most int) bool {
	of := c[one.object.Namespace]
	if of == nil {
		of = map[string]bool{}
		c[one.object.Namespace] = of
	}
	if !of[one.name] && len(of) >= most {
		return false
	}
	of[one.name] = true
	return true
}

// holders returns which source has a name: the one of which its lifecycle was made keeps it, or else it is the first one of that name. has
// counts the sources of a namespace of which there is a lifecycle. Others may have written lifecycles that say so, too: these do not count.
// It also counts the PediaClusters with the party of the namespace, whatever their lifecycles say.
func (p *plan) holders(all []named, wrong map[v1alpha1.Object]error, s *state) (has counted, holders map[string]v1alpha1.Object) {
	has, holders = counted{}, map[string]v1alpha1.Object{}
	for _, one := range all {
		if namespace := one.object.Namespace; has[namespace] == nil {
			has[namespace] = map[string]bool{}
			for _, name := range s.ofParty[parties.OfPolicy(p.policy.Name, namespace).Text()] {
				has[namespace][name] = true
			}
		}
	}
	stays := map[v1alpha1.Object]bool{}
	for name, lifecycle := range s.lifecycles {
		source := lifecycle.Spec.Source
		if wrong[source] == nil || !metav1.IsControlledBy(lifecycle, p.policy) {
			continue
		}
		if holders[name] = source; !stays[source] {
			stays[source] = true
			has.add(named{object: source, name: name}, math.MaxInt)
		}
	}
	for _, one := range all {
		lifecycle := s.lifecycles[one.name]
		if lifecycle != nil && lifecycle.Spec.Source == one.object && metav1.IsControlledBy(lifecycle, p.policy) {
			holders[one.name] = one.object
			has.add(one, math.MaxInt)
		}
	}
	for _, one := range all {
		if _, held := holders[one.name]; !held {
			holders[one.name] = one.object
		}
	}
	return has, holders
}

func compareObjects(a, b v1alpha1.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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
func (p *Policies) makeLifecycle(ctx context.Context, wanted, has *v1alpha1.PediaClusterLifecycle, s *state) (written bool, err error) {
	if has != nil {
		owner := metav1.GetControllerOf(has)
		switch {
		case owner == nil:
			wanted.OwnerReferences = append(slices.Clone(has.OwnerReferences), wanted.OwnerReferences...)
		case owner.UID != wanted.OwnerReferences[0].UID:
			return false, p.freeName(ctx, has, owner, s)
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

// freeName deletes a lifecycle with the name of one that a policy makes, unless another policy controls it. The next pass makes it anew:
// a writer of lifecycles may have changed anything in it, so the PediaCluster that was made of it goes, too. The error says why the name is
// taken.
func (p *Policies) freeName(
	ctx context.Context, lifecycle *v1alpha1.PediaClusterLifecycle, owner *metav1.OwnerReference, s *state,
) error {
	if isPolicy(owner) {
		isOwner := func(policy *v1alpha1.ClusterImportPolicy) bool { return policy.UID == owner.UID }
		if slices.ContainsFunc(s.policies, isOwner) || p.mayLive(ctx, policyResource, owner) {
			return fmt.Errorf("%s %s has made it", owner.Kind, owner.Name)
		}
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lifecycle.UID}}
	if err := p.client.Resource(lifecycleResource).Delete(ctx, lifecycle.Name, options); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%s %s controlled its lifecycle, so search makes it anew", owner.Kind, owner.Name)
}
