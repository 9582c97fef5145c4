// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestGarbageCollectionCrossesCoreAndCustomResources(t *testing.T) {
	t.Parallel()
	widgets := newWidgets(t)
	for _, family := range []struct {
		name               string
		owners, dependents resource
	}{
		{"a custom resource owns a ConfigMap", widgets, configMaps},
		{"a Deployment owns a custom resource", deployments, widgets},
	} {
		for _, deletion := range []struct {
			name string
			test func(*testing.T, pair)
		}{
			{"background", dependentFollows},
			{"foreground", ownerWaits},
			{"orphan", dependentStays},
		} {
			t.Run(family.name+"/"+deletion.name, func(t *testing.T) {
				t.Parallel()
				deletion.test(t, pair{family.owners, family.dependents, framework.CreateNamespace(t, tripod.Cluster)})
			})
		}
	}
}

// pair is an object "owner" and an object "dependent" in a namespace of their own.
type pair struct {
	owners, dependents resource
	namespace          string
}

func dependentFollows(t *testing.T, p pair) {
	p.create(t)
	p.deleteOwner(t, metav1.DeletePropagationBackground)
	framework.Eventually(t, "both are gone", p.gone)
}

func ownerWaits(t *testing.T, p pair) {
	p.create(t, finalizer)
	p.deleteOwner(t, metav1.DeletePropagationForeground)
	framework.Eventually(t, "the dependent is deleted", func(ctx context.Context) error {
		dependent, err := p.dependents.in(p.namespace).Get(ctx, "dependent", metav1.GetOptions{})
		if err == nil && dependent.GetDeletionTimestamp() == nil {
			err = errors.New("it is not")
		}
		return err
	})
	owner, err := p.owners.in(p.namespace).Get(t.Context(), "owner", metav1.GetOptions{})
	require.NoError(t, err, "the owner should wait for its dependent")
	if owner.GetDeletionTimestamp() == nil || !slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		t.Errorf("the owner is not in foreground deletion: %v", owner.Object["metadata"])
	}
	p.dependents.release(t, p.namespace, "dependent")
	framework.Eventually(t, "both are gone", p.gone)
}

func dependentStays(t *testing.T, p pair) {
	p.create(t)
	p.deleteOwner(t, metav1.DeletePropagationOrphan)
	framework.Eventually(t, "the owner is gone", func(ctx context.Context) error {
		return p.owners.gone(ctx, p.namespace, "owner")
	})
	awaitCollector(t, p.dependents, p.namespace)
	dependent, err := p.dependents.in(p.namespace).Get(t.Context(), "dependent", metav1.GetOptions{})
	require.NoError(t, err)
	if dependent.GetDeletionTimestamp() != nil || len(dependent.GetOwnerReferences()) > 0 {
		t.Errorf("the dependent is not an orphan that stays: %v", dependent.Object["metadata"])
	}
}

// create creates both objects and returns when the garbage collector knows them: it deletes the owner of dependents
// that it has not seen as if there were none.
func (p pair) create(t testing.TB, finalizers ...string) {
	t.Helper()
	owner := p.owners.create(t, p.namespace, "owner", nil)
	p.dependents.create(t, p.namespace, "dependent", finalizers, p.owners.reference(owner))
	awaitCollector(t, p.dependents, p.namespace)
	awaitCollector(t, p.owners, p.namespace)
}

func (p pair) deleteOwner(t testing.TB, policy metav1.DeletionPropagation) {
	t.Helper()
	err := p.owners.in(p.namespace).Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy})
	require.NoError(t, err)
}

func (p pair) gone(ctx context.Context) error {
	return errors.Join(p.owners.gone(ctx, p.namespace, "owner"), p.dependents.gone(ctx, p.namespace, "dependent"))
}

// reference returns an owner reference that foreground deletion of the owner waits for.
func (r resource) reference(owner *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: r.GroupVersion().String(), Kind: r.kind, Name: owner.GetName(), UID: owner.GetUID(),
		BlockOwnerDeletion: ptr.To(true),
	}
}

// awaitCollector returns when the garbage collector has seen all that was done to a resource before: it sees changes
// in their order, and the last one is an object that it has to remove, because it never had an owner.
func awaitCollector(t testing.TB, r resource, namespace string) {
	t.Helper()
	name := framework.UniqueName("ownerless")
	r.create(t, namespace, name, nil, metav1.OwnerReference{
		APIVersion: "v1", Kind: configMaps.kind, Name: name + "-owner", UID: uuid.NewUUID(),
	})
	framework.Eventually(t, fmt.Sprintf("the garbage collector removes %s %s", r.kind, name), func(ctx context.Context) error {
		return r.gone(ctx, namespace, name)
	})
}
