// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// binding is a kind of role bindings, in one namespace or everywhere.
type binding struct {
	resource string
	create   func(ctx context.Context, client kubernetes.Interface, name string) (metav1.Object, error)
	delete   func(ctx context.Context, client kubernetes.Interface, name string) error
	watch    func(ctx context.Context, client kubernetes.Interface, options metav1.ListOptions) (watch.Interface, error)
	// decides has the replicas that look for bindings of this kind, with a path that each of them serves.
	decides map[string]string
}

// reading is the role that bindings give to the user of their name.
var readingRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reading}
rules: [{apiGroups: ["", example.com, apiregistration.k8s.io], resources: [secrets, gadgets, apiservices], verbs: [list]}]
---
` + framework.CRD{Kind: "Gadget", Schema: "{type: object}"}.String()

// Paths that are served without a look into etcd, which may be slow.
const (
	secretsPath = "/api/v1/namespaces/test/secrets?resourceVersion=0"
	gadgetsPath = "/apis/example.com/v1/namespaces/test/gadgets?resourceVersion=0"
)

var (
	roleRef  = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reading"}
	bindings = []binding{{
		resource: "rolebindings",
		create: func(ctx context.Context, client kubernetes.Interface, name string) (metav1.Object, error) {
			return client.RbacV1().RoleBindings("test").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef, Subjects: subject(name),
			}, metav1.CreateOptions{})
		},
		delete: func(ctx context.Context, client kubernetes.Interface, name string) error {
			return client.RbacV1().RoleBindings("test").Delete(ctx, name, metav1.DeleteOptions{})
		},
		watch: func(ctx context.Context, client kubernetes.Interface, options metav1.ListOptions) (watch.Interface, error) {
			return client.RbacV1().RoleBindings("test").Watch(ctx, options)
		},
		decides: map[string]string{
			"core-0": secretsPath, "core-1": secretsPath, "extensions-0": gadgetsPath, "extensions-1": gadgetsPath,
		},
	}, {
		resource: "clusterrolebindings",
		create: func(ctx context.Context, client kubernetes.Interface, name string) (metav1.Object, error) {
			return client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef, Subjects: subject(name),
			}, metav1.CreateOptions{})
		},
		delete: func(ctx context.Context, client kubernetes.Interface, name string) error {
			return client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
		},
		watch: func(ctx context.Context, client kubernetes.Interface, options metav1.ListOptions) (watch.Interface, error) {
			return client.RbacV1().ClusterRoleBindings().Watch(ctx, options)
		},
		decides: map[string]string{
			"core-0": secretsPath, "core-1": secretsPath, "extensions-0": gadgetsPath, "extensions-1": gadgetsPath,
			"aggregator-0": apiServicesPath + "?resourceVersion=0", "aggregator-1": apiServicesPath + "?resourceVersion=0",
		},
	}}
)

func subject(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
}

// doors returns the doors of a user to all replicas that decide.
func (b binding) doors(t testing.TB, f *fleet, name string) map[string]door {
	t.Helper()
	doors := map[string]door{}
	for replica, path := range b.decides {
		config := f.As(replica, named(name))
		if strings.HasPrefix(replica, "aggregator") {
			var err error
			config, err = f.Through(replica).UserConfig(name)
			require.NoError(t, err)
		}
		doors[replica] = newDoor(t, replica, config, path)
	}
	return doors
}

// revoke deletes a binding and returns when the request was sent and the resourceVersion of the deletion.
func (b binding) revoke(t testing.TB, client kubernetes.Interface, object metav1.Object) (sent time.Time, version int64) {
	t.Helper()
	watcher, err := b.watch(t.Context(), client, metav1.ListOptions{
		FieldSelector: "metadata.name=" + object.GetName(), ResourceVersion: object.GetResourceVersion(),
	})
	require.NoError(t, err)
	defer watcher.Stop()
	sent = time.Now()
	require.NoError(t, b.delete(t.Context(), client, object.GetName()))
	return sent, deletedAt(t, watcher)
}

// deletedAt returns the resourceVersion of the first deletion that a watch receives.
func deletedAt(t testing.TB, watcher watch.Interface) int64 {
	t.Helper()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			return versionOf(t, event.Object)
		}
	}
	t.Fatal("the watch ended")
	return 0
}

func versionOf(t testing.TB, object runtime.Object) int64 {
	t.Helper()
	accessor, err := meta.Accessor(object)
	require.NoError(t, err)
	version, err := strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	return version
}

// A service that has seen the end of a binding allows nothing by it, while requests come in all the time. What it has
// seen is known by a second binding, made after the first was deleted: one informer gets both, in order.
func (f *fleet) nothingIsAllowedByADeletedBinding(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.resource, func(t *testing.T) {
			for name, r := range f.revokeUnderLoad(t, b) {
				t.Logf("%-12s %v", name, r)
			}
		})
	}
}

// revocation is how a revocation came into force at one replica.
type revocation struct {
	verdict
	// sent is when the request to delete was sent.
	sent time.Time
}

func (r revocation) String() string {
	return fmt.Sprintf("refuses %s after the end was asked for; %d requests were let in meanwhile", milliseconds(r.refused.Sub(r.sent)), r.allowed)
}

// revokeUnderLoad binds a user, has the user read at all replicas that decide, and deletes the binding.
func (f *fleet) revokeUnderLoad(t testing.TB, b binding) map[string]revocation {
	t.Helper()
	client := f.promptly(t)
	victim, sentinel := framework.UniqueName("victim"), framework.UniqueName("sentinel")
	object, err := b.create(t.Context(), client, victim)
	require.NoError(t, err)
	hammers := map[string]*hammer{}
	for name, d := range b.doors(t, f, victim) {
		require.NoError(t, d.becomes(t.Context(), http.StatusOK))
		hammers[name] = hammerAt(t, d)
	}
	for _, h := range hammers {
		require.NoError(t, h.hits(t.Context(), 10, time.Time{}))
	}

	sent, version := b.revoke(t, client, object)
	later, err := b.create(t.Context(), client, sentinel)
	require.NoError(t, err)
	if laterVersion, err := strconv.ParseInt(later.GetResourceVersion(), 10, 64); err != nil || laterVersion <= version {
		t.Fatalf("the sentinel has version %s, the deletion %d", later.GetResourceVersion(), version)
	}
	var seeing errgroup.Group
	for name, d := range b.doors(t, f, sentinel) {
		seeing.Go(func() error {
			if err := d.becomes(t.Context(), http.StatusOK); err != nil {
				return err
			}
			seen := time.Now()
			if err := hammers[name].hits(t.Context(), 20, seen); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			hammers[name].seen = seen
			return nil
		})
	}
	require.NoError(t, seeing.Wait())
	revocations := map[string]revocation{}
	for name, h := range hammers {
		revocations[name] = revocation{judge(t, name, h.stop(), http.StatusForbidden, sent, h.seen), sent}
	}
	return revocations
}

// Services observe it without being asked anything: the first request after the resourceVersion of the deletion has
// arrived is refused.
func (f *fleet) deletedBindingsAreSeenWithoutRequests(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.resource, func(t *testing.T) {
			client, victim := f.promptly(t), framework.UniqueName("victim")
			object, err := b.create(t.Context(), client, victim)
			require.NoError(t, err)
			doors := b.doors(t, f, victim)
			for _, d := range doors {
				require.NoError(t, d.becomes(t.Context(), http.StatusOK))
			}
			sent, version := b.revoke(t, client, object)
			for name, d := range doors {
				if strings.HasPrefix(name, "core") {
					continue // its informers have no such metric
				}
				framework.Eventually(t, name+" has seen the deletion", func(ctx context.Context) error {
					seen, err := f.Metric(ctx, name, "tripod_policy_resource_version", "resource="+b.resource)
					if err == nil && int64(seen) < version {
						err = fmt.Errorf("it has seen %.0f, the deletion is %d", seen, version)
					}
					return err
				})
				after := time.Since(sent)
				a, err := d.try(t.Context())
				require.NoError(t, err)
				assert.Equal(t, http.StatusForbidden, a.code, "%s answers %d after it has seen the deletion", name, a.code)
				t.Logf("%-12s has seen version %d after %s at most", name, version, milliseconds(after))
			}
		})
	}
}
