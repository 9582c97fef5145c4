// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// inventory has all data: in etcd by key, and in the API by resource, namespace and name.
type inventory struct {
	revision int64
	stored   map[string]entry
	shown    map[string]shown
}

// entry is the value of a key in etcd.
type entry struct {
	value []byte
	// revision is the revision of the last change.
	revision int64
}

// shown is the metadata of an object in the API. The UID must stay, and the resourceVersion must not go back.
type shown struct {
	uid, resourceVersion string
	// restless says that objects of this kind change without any user.
	restless bool
}

// restless has keys that change under any API server: the kubelet or a controller writes them, or they change after the API server was
// down. Pods of the control plane are among them, because the kubelet creates new mirror pods.
var restless = []string{
	"/registry/leases/", "/registry/events/", "/registry/masterleases/", "/registry/minions/",
	"/registry/pods/kube-system/", "/registry/health",
	// The addresses of API servers. Each API server writes them when it starts or stops.
	"/registry/endpointslices/default/kubernetes", "/registry/services/endpoints/default/kubernetes",
	// The usage of quotas, and the allocation of node ports, which the repair loop writes when an API server starts.
	"/registry/resourcequotas/", "/registry/ranges/servicenodeports",
}

func isRestless(key string) bool {
	return slices.ContainsFunc(restless, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// isDefaultRole returns whether a value is an RBAC object that API servers reconcile.
func isDefaultRole(value []byte) bool {
	return bytes.Contains(value, []byte("kubernetes.io/bootstrapping")) && bytes.Contains(value, []byte("rbac-defaults"))
}

// etcd opens the cluster's etcd, through a port that the API server forwards.
func (s *subject) etcd(t *testing.T) (client *clientv3.Client, closeAll func()) {
	t.Helper()
	const pki = "/etc/kubernetes/pki/etcd/"
	file := func(name string) []byte { return []byte(s.onNode(t, nil, "cat", pki+name)) }
	pair, err := tls.X509KeyPair(file("healthcheck-client.crt"), file("healthcheck-client.key"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file("ca.crt"))
	address, stop, err := s.Forward(t.Context(), kindcluster.SPDY, metav1.NamespaceSystem, "etcd-"+s.NodeName(), 2379)
	require.NoError(t, err)
	client, err = clientv3.New(clientv3.Config{
		Endpoints:   []string{"https://" + address},
		DialTimeout: streamTimeout,
		TLS:         &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	return client, func() {
		client.Close() //nolint:errcheck // only read
		stop()
	}
}

// takeInventory reads everything.
func (s *subject) takeInventory(t *testing.T) *inventory {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, closeAll := s.etcd(t)
	defer closeAll()
	all, err := client.Get(ctx, "/", clientv3.WithPrefix())
	require.NoError(t, err)
	result := &inventory{revision: all.Header.Revision, stored: map[string]entry{}, shown: map[string]shown{}}
	for _, kv := range all.Kvs {
		result.stored[string(kv.Key)] = entry{kv.Value, kv.ModRevision}
	}
	lists, err := discovery.ServerPreferredResources(s.Client.Discovery())
	require.NoError(t, err)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "create") {
				s.show(ctx, t, version.WithResource(resource.Name), result.shown)
			}
		}
	}
	return result
}

func (s *subject) show(ctx context.Context, t *testing.T, resource schema.GroupVersionResource, into map[string]shown) {
	t.Helper()
	list, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	require.NoError(t, err, "list %s", resource)
	for i := range list.Items {
		item := &list.Items[i]
		name := strings.Join([]string{resource.Group, resource.Resource, item.GetNamespace(), item.GetName()}, "/")
		restless := slices.Contains([]string{"events", "leases"}, resource.Resource) ||
			resource.Resource == "pods" && item.GetNamespace() == metav1.NamespaceSystem
		into[name] = shown{string(item.GetUID()), item.GetResourceVersion(), restless}
	}
}

// compare checks that all data from before is unchanged, except where it is restless, and that every new key contains one of mine.
func compare(t *testing.T, before, after *inventory, mine ...string) {
	t.Helper()
	if after.revision < before.revision {
		t.Errorf("the revision of etcd went back from %d to %d", before.revision, after.revision)
	}
	for _, key := range slices.Sorted(maps.Keys(before.stored)) {
		was, is := before.stored[key], after.stored[key]
		switch {
		case isRestless(key):
		case is.value == nil:
			t.Errorf("%s is lost", key)
		case isDefaultRole(was.value) && len(is.value) >= len(was.value):
			// Each version of Kubernetes adds rules to its default roles, and removes none.
		case !bytes.Equal(is.value, was.value):
			t.Errorf("%s changed from %d bytes at revision %d to %d bytes at %d", key, len(was.value), was.revision, len(is.value), is.revision)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after.stored)) {
		isMine := slices.ContainsFunc(mine, func(name string) bool { return strings.Contains(key, name) })
		if _, known := before.stored[key]; !known && !isRestless(key) && !isMine {
			t.Errorf("%s is new", key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.shown)) {
		was, is := before.shown[name], after.shown[name]
		if was.restless {
			continue
		}
		if is.uid != was.uid {
			t.Errorf("%s has the UID %q, want %q", name, is.uid, was.uid)
		} else if order, err := resourceversion.CompareResourceVersion(is.resourceVersion, was.resourceVersion); err != nil || order < 0 {
			t.Errorf("%s went back from resourceVersion %s to %s", name, was.resourceVersion, is.resourceVersion)
		}
	}
}
