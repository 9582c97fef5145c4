// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// slowReaders are more than a replica resumes from etcd at a time.
	slowReaders = 80
	// objects of objectSize are more than a server takes for a client that reads nothing.
	objects, objectSize = 10, 50 << 10
)

func TestSlowReadersOfResumedWatches(t *testing.T) {
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	configMaps := client.CoreV1().ConfigMaps(framework.CreateNamespace(t, fleet.Cluster))
	create := func(name, value string) *corev1.ConfigMap {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
		created, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		return created
	}
	before := create("first", "")
	for i := range objects {
		create(fmt.Sprintf("large-%d", i), strings.Repeat("x", objectSize))
	}
	young := fleet.Replica("core-1")
	require.NoError(t, young.Start())
	require.NoError(t, young.WaitReady(t.Context()))
	config := fleet.As("core-1", framework.Master)
	path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps?watch=true&resourceVersion=%s", before.Namespace, before.ResourceVersion)
	var starting sync.WaitGroup
	begin := watchesWithoutReading(t, config)
	for range slowReaders {
		starting.Go(func() { begin(path) })
	}
	starting.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 3*giveUp)
	defer cancel()
	reader, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	watching, err := reader.CoreV1().ConfigMaps(before.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	require.NoError(t, err)
	defer watching.Stop()
	for i := range objects {
		event, ok := <-watching.ResultChan()
		object, isObject := event.Object.(*corev1.ConfigMap)
		if want := fmt.Sprintf("large-%d", i); !ok || event.Type != watch.Added || !isObject || object.Name != want {
			t.Fatalf("another client's watch has %s %T instead of %s", event.Type, event.Object, want)
		}
	}
}

// watchesWithoutReading returns a function that begins a watch, and takes less than an event of it.
func watchesWithoutReading(t *testing.T, config *rest.Config) func(path string) {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	transport := &http.Transport{
		TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return func(path string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := config.WrapTransport(transport).RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = resp.Body.Close() }) // nothing more is expected of it
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a watch is answered with %s", resp.Status)
		}
	}
}
