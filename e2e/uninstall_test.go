// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestUninstall removes the release twice. The first time it keeps certificates and data, and a new release uses them. The second time it
// keeps nothing.
func TestUninstall(t *testing.T) {
	t.Parallel() // and so after all other tests
	r := shared(t)
	user := newUser(t, r)
	user.kubectl("", "create", "configmap", "kept", "--from-literal=value=1")
	kubeconfig := read(t, r.Kubeconfig)

	progress.Require(t, "helm uninstalls the release and keeps certificates and data", func() error {
		if err := r.Upgrade(t.Context(), keep(true)); err != nil {
			return err
		}
		return r.Uninstall(t.Context())
	})
	left := awaitLeft(t, r, "Secret", "PersistentVolumeClaim")
	t.Logf("kept: %v", left)

	values, err := env.Values(t.Context(), environment.NodePort)
	require.NoError(t, err)
	require.NoError(t, r.Up(t.Context(), values, keep(false)))
	user.kubectl("", "get", "configmap", "kept", "-o", "jsonpath={.data.value}").contains("1")
	if !bytes.Equal(kubeconfig, read(t, r.Kubeconfig)) {
		t.Error("the new release has a new kubeconfig, want the kept one")
	}

	progress.Require(t, "helm uninstalls the release and keeps nothing", func() error { return r.Uninstall(t.Context()) })
	awaitLeft(t, r)
}

// keep returns values that keep certificates and data at an uninstall, or remove them.
func keep(yes bool) release.Values {
	claims := "Delete"
	if yes {
		claims = "Retain"
	}
	return release.Values{
		"certificates": release.Values{"keep": yes},
		"etcd":         release.Values{"persistence": release.Values{"whenDeleted": claims}},
	}
}

// awaitLeft returns the objects that an uninstalled release has left, once it has left objects of each of these kinds and of no other kind.
// The garbage collector deletes some objects a moment later than helm.
func awaitLeft(t testing.TB, r *release.Release, kinds ...string) []string {
	t.Helper()
	var left []string
	framework.Eventually(t, "nothing else is left", func(ctx context.Context) (err error) {
		if left, err = objectsOf(ctx, r); err != nil {
			return err
		}
		for _, object := range left {
			if kind, _, _ := strings.Cut(object, " "); !slices.Contains(kinds, kind) {
				return fmt.Errorf("the release has left %v", left)
			}
		}
		for _, kind := range kinds {
			if !slices.ContainsFunc(left, func(object string) bool { return strings.HasPrefix(object, kind+" ") }) {
				return fmt.Errorf("the release has left no %s", kind)
			}
		}
		return nil
	})
	return left
}

// objectsOf returns all objects of the cluster that have the names or labels of a release. helm itself forgets the objects of its hooks.
func objectsOf(ctx context.Context, r *release.Release) ([]string, error) {
	client, err := dynamic.NewForConfig(r.Host.Config())
	if err != nil {
		return nil, err
	}
	lists, err := r.Host.Client.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists))
	if err != nil {
		return nil, err
	}
	var found []string
	for resource := range resources {
		objects, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", resource, err)
		}
		for _, o := range objects.Items {
			if o.GetKind() == "Event" || o.GetKind() == "PersistentVolume" {
				continue
			}
			inside := o.GetNamespace() == r.Namespace && (o.GetName() == r.Name || strings.HasPrefix(o.GetName(), r.Name+"-"))
			labelled := o.GetLabels()["app.kubernetes.io/instance"] == r.Name
			byHelm := strings.HasPrefix(o.GetName(), "sh.helm.release.v1."+r.Name+".")
			if inside || labelled || byHelm {
				found = append(found, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}
