// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// The record is a ConfigMap beside that of the chart. Pods of etcd prefer its values, and Helm does not know it.
const (
	recordSuffix = "-resized"
	keyInitial   = "INITIAL_CLUSTER"
	keyState     = "INITIAL_CLUSTER_STATE"
	// keyMembers has all members, for restores.
	keyMembers = "MEMBERS"
	// closed is a member that etcd does not have. A pod without data, whose volume was lost, so finds another number of members than in
	// etcd, and ends. Otherwise it would come back as the member that it was, and vote without what that member had confirmed. Pods with
	// data do not read it.
	closed = ",closed=https://closed.invalid:2380"

	existing = "existing"

	// annotationTo is the number of members that an unfinished resize is to reach. The chart refuses upgrades as long as it is there.
	annotationTo = "tripod-k8s.io/resize-to"
	// annotationFrom is the largest number of members since then.
	annotationFrom = "tripod-k8s.io/resize-from"
	// annotationSet has the StatefulSet until the resize has finished. If it is missing, the next command makes it again.
	annotationSet = "tripod-k8s.io/resize-statefulset"
)

// begin marks the etcd as one that is being resized.
func (r *resizer) begin(ctx context.Context, s *state) error {
	kept, err := json.Marshal(anew(s.set, declared(s.set)))
	if err != nil {
		return err
	}
	return r.updateRecord(ctx, func(record *corev1.ConfigMap) {
		record.Annotations[annotationSet] = string(kept)
		before, _ := strconv.Atoi(record.Annotations[annotationFrom]) // none: 0
		r.from = max(before, len(s.members), s.replicas)
		r.fill(record, len(s.members))
		record.Annotations[annotationTo], record.Annotations[annotationFrom] = strconv.Itoa(r.Members), strconv.Itoa(r.from)
		record.OwnerReferences = ownedBy(s.set)
	})
}

// record writes the number of members that a new one has to expect in etcd, itself included.
func (r *resizer) record(ctx context.Context, members int) error {
	return r.updateRecord(ctx, func(record *corev1.ConfigMap) {
		r.from = max(r.from, members)
		r.fill(record, members)
		record.Annotations[annotationFrom] = strconv.Itoa(r.from)
	})
}

// finish marks the resize as finished.
func (r *resizer) finish(ctx context.Context) error {
	return r.updateRecord(ctx, func(record *corev1.ConfigMap) {
		delete(record.Annotations, annotationTo)
		delete(record.Annotations, annotationFrom)
		delete(record.Annotations, annotationSet)
		if record.Data[keyState] == existing {
			record.Data[keyInitial] = record.Data[keyMembers] + closed
		}
	})
}

// Unfinished reports whether the number of members of an etcd, of which it gets the name of the StatefulSet, is being changed.
func Unfinished(ctx context.Context, client kubernetes.Interface, namespace, set string) (bool, error) {
	record, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, set+recordSuffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && record.Annotations[annotationTo] != "", err
}

// fill writes the members. One that is alone may start without data, as after an installation: it cannot be apart from others.
func (r *resizer) fill(record *corev1.ConfigMap, count int) {
	var all []string
	for i := range count {
		all = append(all, r.member(i)+"="+r.peerURL(i))
	}
	state, members := existing, strings.Join(all, ",")
	if len(all) == 1 {
		state = "new"
	}
	record.Data = map[string]string{keyInitial: members, keyMembers: members, keyState: state}
}

// updateRecord changes the record, and makes it first if necessary.
func (r *resizer) updateRecord(ctx context.Context, change func(*corev1.ConfigMap)) error {
	records := r.Client.CoreV1().ConfigMaps(r.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before, err := records.Get(ctx, r.set+recordSuffix, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			before, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: r.Namespace, Name: r.set + recordSuffix,
				Labels: map[string]string{labelPartOf: "tripod", labelRelease: r.Release, labelEtcd: r.etcd},
			}}, nil
		}
		if err != nil {
			return err
		}
		record := before.DeepCopy()
		if record.Annotations == nil {
			record.Annotations = map[string]string{}
		}
		change(record)
		switch {
		case missing:
			_, err = records.Create(ctx, record, metav1.CreateOptions{})
		case !maps.Equal(record.Annotations, before.Annotations) || !maps.Equal(record.Data, before.Data) ||
			!slices.EqualFunc(record.OwnerReferences, before.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }):
			_, err = records.Update(ctx, record, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot write the ConfigMap %s: %w", r.set+recordSuffix, err)
	}
	return nil
}

// membersOf returns the number of members in a record.
func membersOf(record *corev1.ConfigMap) int { return len(strings.Split(record.Data[keyMembers], ",")) }

// ownedBy has the garbage collector remove the record with the StatefulSet.
func ownedBy(set *appsv1.StatefulSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}}
}

func isOwnedBy(record *corev1.ConfigMap, set *appsv1.StatefulSet) bool {
	return slices.ContainsFunc(record.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == set.UID })
}

// own has the garbage collector remove the record with the StatefulSet again. `kubectl delete --cascade=orphan` ends that, and a record
// that outlives its release would have the members of the next one wait for those that it names.
func (r *resizer) own(ctx context.Context, set *appsv1.StatefulSet) error {
	return r.updateRecord(ctx, func(record *corev1.ConfigMap) { record.OwnerReferences = ownedBy(set) })
}

// anew returns the StatefulSet as it is to be created, with a number of members in its selector.
func anew(set *appsv1.StatefulSet, members int) *appsv1.StatefulSet {
	next := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name, Labels: set.Labels, Annotations: set.Annotations, ManagedFields: set.ManagedFields,
		},
		Spec: *set.Spec.DeepCopy(),
	}
	for i, e := range next.Spec.Selector.MatchExpressions {
		if e.Key == labelMembers {
			next.Spec.Selector.MatchExpressions[i].Values = []string{strconv.Itoa(members)}
		}
	}
	return next
}

// mayRecreate has the API server try what declare does, without a change. The user may have the right to delete the StatefulSet and not the
// one to create it, and admission or a quota may refuse it. The last thing that the API server finds is that the name is taken.
func (r *resizer) mayRecreate(ctx context.Context, set *appsv1.StatefulSet) error {
	sets, trial := r.Client.AppsV1().StatefulSets(r.Namespace), []string{metav1.DryRunAll}
	next := anew(set, r.Members)
	next.ManagedFields = nil
	_, err := sets.Create(ctx, next, metav1.CreateOptions{DryRun: trial})
	if err == nil || apierrors.IsAlreadyExists(err) {
		err = sets.Delete(ctx, r.set, orphaning(set, trial...))
	}
	if err != nil {
		return notRecreated(err)
	}
	return nil
}

// orphaning deletes a StatefulSet, and leaves its pods.
func orphaning(set *appsv1.StatefulSet, dryRun ...string) metav1.DeleteOptions {
	return metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &set.UID}, PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan), DryRun: dryRun,
	}
}

// declare makes the StatefulSet anew, with the number of members to reach in its selector. Its pods go on.
func (r *resizer) declare(ctx context.Context) error {
	set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
	if err != nil || declared(set) == r.Members {
		return err
	}
	if err := r.mayRecreate(ctx, set); err != nil {
		return err
	}
	data, err := json.Marshal(anew(set, r.Members))
	if err != nil {
		return err
	}
	r.Progress(fmt.Sprintf("making the StatefulSet %s anew for %d members, beside its pods", r.set, r.Members))
	err = r.updateRecord(ctx, func(record *corev1.ConfigMap) {
		record.Annotations[annotationSet] = string(data)
		record.OwnerReferences = nil // or it would go with the StatefulSet
	})
	if err != nil {
		return err
	}
	err = r.Client.AppsV1().StatefulSets(r.Namespace).Delete(ctx, r.set, orphaning(set))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot make the StatefulSet anew: %w", err)
	}
	return r.recreate(ctx)
}

// recreate creates the StatefulSet from the record if it is missing: a command was interrupted after it had deleted it, or something else
// deleted it before a resize had finished.
func (r *resizer) recreate(ctx context.Context) error {
	record, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, r.set+recordSuffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && record.Annotations[annotationSet] == "" {
		return nil
	}
	if err != nil {
		return err
	}
	next := &appsv1.StatefulSet{}
	if err := json.Unmarshal([]byte(record.Annotations[annotationSet]), next); err != nil {
		return fmt.Errorf("the annotation %s of the ConfigMap %s: %w", annotationSet, record.Name, err)
	}
	next.Spec.Replicas = ptr.To(int32(membersOf(record))) // it may have been scaled since it was kept
	set, created, err := r.create(ctx, next)
	if err != nil {
		return err
	}
	if created {
		if err := r.awaitPods(ctx); err != nil {
			return err
		}
	}
	return r.own(ctx, set)
}

// create creates the StatefulSet when the former one is gone. It returns the one that is there: one that is not being deleted may be of an
// earlier command, or of Helm.
func (r *resizer) create(ctx context.Context, next *appsv1.StatefulSet) (set *appsv1.StatefulSet, created bool, err error) {
	sets, managers := r.Client.AppsV1().StatefulSets(r.Namespace), next.ManagedFields
	next.ManagedFields = nil
	err = r.poll(ctx, stopTimeout, "the StatefulSet "+r.set+" is there", func(ctx context.Context) (bool, error) {
		if set, err = sets.Get(ctx, r.set, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err == nil && set.DeletionTimestamp == nil, err
		}
		set, err = sets.Create(ctx, next, metav1.CreateOptions{})
		created = err == nil
		return created, err
	})
	if err == nil && created {
		err = r.restoreManagers(ctx, managers, r.patchSet)
	}
	return set, created, err
}

// awaitPods returns when the StatefulSet has taken all pods.
func (r *resizer) awaitPods(ctx context.Context) error {
	return r.poll(ctx, startTimeout, r.set+" has all pods", func(ctx context.Context) (bool, error) {
		set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas >= ptr.Deref(set.Spec.Replicas, 1), nil
	})
}
