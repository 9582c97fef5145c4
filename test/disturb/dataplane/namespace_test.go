// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// doomedNamespace is a namespace with objects that is to be deleted, by kube-controller-manager.
type doomedNamespace struct {
	name       string
	namespaces typedcorev1.NamespaceInterface
	client     *traffic.Client
}

// newDoomedNamespace returns when kube-controller-manager deletes namespaces.
func newDoomedNamespace(t *testing.T, env *framework.Environment) *doomedNamespace {
	t.Helper()
	require.NoError(t, env.StartControllers(t.Context(), fleet.Cluster, framework.ControllersOptions{}))
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	d := &doomedNamespace{namespaces: client.CoreV1().Namespaces(), client: traffic.NewClient(t, fleet.Cluster.Admin(), 1)}
	for range 2 {
		if d.name != "" { // the one that was only to see that it works
			d.delete(t)
			d.isGone(t)
		}
		d.name = framework.CreateNamespace(t, fleet.Cluster)
		for _, r := range append([]traffic.Resource{traffic.ConfigMaps}, few...) {
			d.client.Need(t, http.MethodPost, r.Collection(d.name), r.Object("a", "0", ""))
		}
	}
	return d
}

func (d *doomedNamespace) delete(t testing.TB) {
	t.Helper()
	require.NoError(t, d.namespaces.Delete(t.Context(), d.name, metav1.DeleteOptions{}))
}

// stays expects the namespace to exist, and to have the reason in its conditions.
func (d *doomedNamespace) stays(t *testing.T) {
	framework.Eventually(t, "the namespace controller says what it waits for", func(ctx context.Context) error {
		namespace, err := d.namespaces.Get(ctx, d.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range namespace.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the namespace is %+v", namespace.Status)
	})
	framework.Eventually(t, "objects of core are deleted", func(ctx context.Context) error {
		return d.isEmpty(ctx, traffic.ConfigMaps)
	})
}

// isGone expects the namespace to be deleted, with its objects.
func (d *doomedNamespace) isGone(t *testing.T) {
	framework.Eventually(t, "the namespace is gone", func(ctx context.Context) error {
		namespace, err := d.namespaces.Get(ctx, d.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the namespace is %+v", namespace.Status)
	})
	for _, r := range append([]traffic.Resource{traffic.ConfigMaps}, few...) {
		assert.NoError(t, d.isEmpty(t.Context(), r))
	}
}

// isEmpty expects the namespace to have no objects of a resource.
func (d *doomedNamespace) isEmpty(ctx context.Context, r traffic.Resource) error {
	a, err := d.client.Send(ctx, http.MethodGet, r.Collection(d.name), nil)
	if err == nil {
		err = a.Expect(http.StatusOK)
	}
	if err != nil {
		return err
	}
	list, err := traffic.Decode(a.Body)
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("there are %s in the namespace: %v", r.Plural, list.Items)
	}
	return err
}
