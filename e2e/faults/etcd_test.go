// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// The StatefulSets of the release's etcds, and key prefixes that only one of them has.
const (
	coreEtcd       = "tripod-etcd"
	extensionsEtcd = "tripod-etcd-extensions"

	customKeys     = "/registry/example.com/"
	definitionKeys = "/registry/apiextensions.k8s.io/"
	configMapKeys  = "/registry/configmaps/"
	serviceKeys    = "/registry/apiregistration.k8s.io/"
)

// TestEtcdPerService reads the keys in the etcds of core and extensions.
func TestEtcdPerService(t *testing.T) {
	settled(t)
	client := traffic.NewClient(t, tripod.Admin(), 1)
	for _, r := range []traffic.Resource{traffic.ConfigMaps, customs[0]} {
		client.Need(t, http.MethodPost, r.Collection("default"), r.Object("separate", "1", ""))
		t.Cleanup(func() {
			_, _ = traffic.NewClient(t, tripod.Admin(), 1).Send(context.WithoutCancel(t.Context()), http.MethodDelete, r.Path("default", "separate"), nil)
		})
	}
	custom, builtin := customKeys+customs[0].Plural+"/default/separate", configMapKeys+"default/separate"
	for _, test := range []struct {
		etcd    string
		has     []string
		hasNone []string
	}{
		{coreEtcd, []string{builtin, serviceKeys}, []string{customKeys, definitionKeys}},
		{extensionsEtcd, []string{custom, definitionKeys}, []string{configMapKeys, "/registry/namespaces/", "/registry/secrets/", serviceKeys}},
	} {
		counts := countKeys(t, test.etcd, append(test.has, test.hasNone...)...)
		for _, prefix := range test.has {
			if counts[prefix] == 0 {
				t.Errorf("%s has no keys in %s", test.etcd, prefix)
			}
		}
		for _, prefix := range test.hasNone {
			if counts[prefix] > 0 {
				t.Errorf("%s has %d keys in %s, want none", test.etcd, counts[prefix], prefix)
			}
		}
	}
}

// countKeys returns the number of keys in an etcd by prefix.
func countKeys(t *testing.T, etcd string, prefixes ...string) map[string]int64 {
	t.Helper()
	secret, err := tripod.Host.Client.CoreV1().Secrets(tripod.Namespace).Get(t.Context(), etcd+"-client", metav1.GetOptions{})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	address, stop, err := tripod.Forward(t.Context(), etcd+"-0", 2379)
	require.NoError(t, err)
	defer stop()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{"https://" + address},
		DialTimeout: 20 * time.Second,
		TLS:         &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	})
	require.NoError(t, err)
	defer client.Close()
	counts := map[string]int64{}
	for _, prefix := range prefixes {
		found, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		counts[prefix] = found.Count
	}
	return counts
}

// TestExtensionsEtcdAway stops the etcd of custom resources. Clients of built-in resources notice nothing.
func TestExtensionsEtcdAway(t *testing.T) {
	settled(t)
	builtin := traffic.Start(t, traffic.Options{Rate: 40, Workers: 20, Watchers: 20}, tripod.Admin())
	builtin.Progress(t, 50)
	keep(t, customs[0])
	scaleEtcd(t, extensionsEtcd, 0)
	awaitAnswer(t, "extensions is not ready", "/readyz/extensions-available", http.StatusInternalServerError)
	builtin.Progress(t, 200)
	discoveryKnowsCustoms(t)
	scaleEtcd(t, extensionsEtcd, 1)
	settled(t)
	awaitAnswer(t, "what was there is there", customs[0].Path("default", "keep"), http.StatusOK)
	builtin.Progress(t, 50)
	builtin.Finish(t)
	builtin.FailsNever(t)
	builtin.WatchesAreWell(t, false)
	builtin.SawAll(t)
}

// TestCoreEtcdAway stops the etcd of core and the aggregator. Custom resources have an etcd of their own, so clients with a certificate
// still read and write them, over new connections too.
func TestCoreEtcdAway(t *testing.T) {
	settled(t)
	keep(t, customs[0])
	scaleEtcd(t, coreEtcd, 0)
	defer func() {
		scaleEtcd(t, coreEtcd, 1)
		settled(t)
	}()
	awaitAnswer(t, "core is not ready", "/readyz/core-available", http.StatusInternalServerError)
	// This lasts long enough for the kubelet to mark unready pods.
	path := customs[0].Path("default", "keep")
	for began, i := time.Now(), 0; time.Since(began) < 20*time.Second; i++ {
		client := traffic.NewClient(t, tripod.Admin(), 1)
		version := client.Need(t, http.MethodGet, path, nil).Metadata.ResourceVersion
		client.Need(t, http.MethodPut, path, customs[0].Object("keep", strconv.Itoa(i), version))
	}
}

// TestCoreEtcdRestarts kills the etcd of core, which the kubelet restarts. No write is lost, watches resume, and retries succeed.
func TestCoreEtcdRestarts(t *testing.T) {
	settled(t)
	keep(t, traffic.ConfigMaps)
	clients := load(t)
	clients.Progress(t, 100)
	began := time.Now()
	killEtcd(t, coreEtcd)
	clients.Progress(t, 200)
	settled(t)
	ended := time.Now()
	clients.Progress(t, 200)
	clients.Finish(t)
	for _, f := range clients.Failures() {
		if f.Ended.Before(began) || f.Began.After(ended) {
			t.Error(f)
		}
	}
	t.Logf("%d requests failed during the restart", len(clients.Failures()))
	clients.SawAll(t)
	awaitAnswer(t, "what was there is there", traffic.ConfigMaps.Path("default", "keep"), http.StatusOK)
}

// keep creates an object that must survive.
func keep(t *testing.T, r traffic.Resource) {
	t.Helper()
	client := traffic.NewClient(t, tripod.Admin(), 1)
	// An interrupted test may have left the object.
	if _, err := client.Send(t.Context(), http.MethodDelete, r.Path("default", "keep"), nil); err != nil {
		t.Fatal(err)
	}
	client.Need(t, http.MethodPost, r.Collection("default"), r.Object("keep", "1", ""))
	t.Cleanup(func() {
		_, err := traffic.NewClient(t, tripod.Admin(), 1).Send(context.WithoutCancel(t.Context()), http.MethodDelete, r.Path("default", "keep"), nil)
		assert.NoError(t, err)
	})
}

// scaleEtcd scales an etcd to 0 members or 1, and returns when it has that many.
func scaleEtcd(t *testing.T, etcd string, members int32) {
	t.Helper()
	sets := tripod.Host.Client.AppsV1().StatefulSets(tripod.Namespace)
	err := progress.Step("kubectl scale "+etcd, func() error {
		scale, err := sets.GetScale(t.Context(), etcd, metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = members
		if _, err := sets.UpdateScale(t.Context(), etcd, scale, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return framework.Poll(t.Context(), etcd+" is scaled", func(ctx context.Context) error {
			set, err := sets.Get(ctx, etcd, metav1.GetOptions{})
			if err == nil && (set.Status.Replicas != members || set.Status.ReadyReplicas != members || set.Status.ObservedGeneration < set.Generation) {
				err = errors.New("the etcd is not scaled yet")
			}
			return err
		})
	})
	require.NoError(t, err)
}

// killEtcd kills the process of an etcd. The kubelet restarts it.
func killEtcd(t *testing.T, etcd string) {
	t.Helper()
	pod, err := tripod.Host.Client.CoreV1().Pods(tripod.Namespace).Get(t.Context(), etcd+"-0", metav1.GetOptions{})
	require.NoError(t, err)
	kill(t, pod)
}

// discoveryKnowsCustoms expects the custom resources in discovery, as client-go reads it.
func discoveryKnowsCustoms(t *testing.T) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(tripod.Admin())
	require.NoError(t, err)
	_, lists, err := client.ServerGroupsAndResources()
	require.NoError(t, err)
	missing := map[string]bool{}
	for _, r := range customs {
		missing[r.Plural] = true
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			delete(missing, r.Name)
		}
	}
	assert.Empty(t, missing, "discovery")
}
