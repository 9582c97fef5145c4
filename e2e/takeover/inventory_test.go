// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// data is all data: in etcd and in the API.
type data struct {
	revision int64
	stored   inventory.Stored
	shown    inventory.Shown
}

// restless also matches objects that change without any user: the kubelet or a controller writes them, or the repair of node ports when an API
// server starts. Pods of the control plane are among them, because the kubelet creates new mirror pods.
var restless = inventory.Restless("leases/|minions/|pods/kube-system/|health|resourcequotas/|ranges/servicenodeports")

// restlessObjects are of kinds whose resourceVersion changes by itself, as the API shows them.
var restlessObjects = regexp.MustCompile("Resource=(events |leases |pods " + metav1.NamespaceSystem + "/)")

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
		client.Close()
		stop()
	}
}

// takeInventory reads everything.
func (s *subject) takeInventory(t *testing.T) data {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, closeAll := s.etcd(t)
	defer closeAll()
	stored, revision, err := inventory.ReadEtcd(ctx, client)
	require.NoError(t, err)
	preferred, err := discovery.ServerPreferredResources(s.Client.Discovery())
	require.NoError(t, err)
	shown, err := inventory.ReadAPI(ctx, s.Config(), preferred)
	require.NoError(t, err)
	return data{revision, stored, shown}
}

// compare checks that all data from before is unchanged, except where it is restless, and that every new key contains one of mine.
func compare(t *testing.T, before, after data, mine ...string) {
	t.Helper()
	if after.revision < before.revision {
		t.Errorf("the revision of etcd went back from %d to %d", before.revision, after.revision)
	}
	for _, difference := range before.stored.Differences(after.stored, func(key string, was, is inventory.Entry) bool {
		isMine := slices.ContainsFunc(mine, func(name string) bool { return strings.Contains(key, name) })
		// Each version of Kubernetes adds rules to its default roles, and removes none.
		hasMoreRules := isDefaultRole(was.Value) && len(is.Value) >= len(was.Value)
		return restless.MatchString(key) || hasMoreRules || was.Value == nil && isMine
	}) {
		t.Error("in etcd, " + difference)
	}
	for name, was := range before.shown {
		is := after.shown[name]
		if restlessObjects.MatchString(name) {
			continue
		}
		if is.GetUID() != was.GetUID() {
			t.Errorf("%s has the UID %q, want %q", name, is.GetUID(), was.GetUID())
		} else if order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), was.GetResourceVersion()); err != nil || order < 0 {
			t.Errorf("%s went back from resourceVersion %s to %s", name, was.GetResourceVersion(), is.GetResourceVersion())
		}
	}
}
