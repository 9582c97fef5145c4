// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

func TestCoreGoesOnWithoutExtensions(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	env := framework.ForTest(t)
	doomed := newDoomedNamespace(t, env)
	measureCore(t, "with-extensions")

	fleet.kill(t, "extensions-0")
	fleet.kill(t, "extensions-1")
	t.Run("custom resources are unavailable", unavailable)
	doomed.delete(t)
	t.Run("core is as fast as before", func(t *testing.T) { measureCore(t, "without-extensions") })
	t.Run("discovery knows custom resources", discoveryIsComplete)
	t.Run("kubectl works", func(t *testing.T) { kubectlWorks(t, newKubectl(env, fleet.Cluster)) })
	t.Run("a namespace stays", doomed.stays)

	fleet.start(t, "extensions-0")
	fleet.start(t, "extensions-1")
	back := time.Now()
	fleet.awaitServing(t)
	measured(t, "extensions-back", time.Since(back))
	t.Run("the namespace is deleted", doomed.isGone)
}

// unavailable expects the right answer to all kinds of requests for custom resources. The reads begin before the aggregator can
// have noticed that no replica is there.
func unavailable(t *testing.T) {
	r := few[0]
	collection, object := r.Collection("default"), r.Path("default", "a")
	slowest := time.Duration(0)
	for _, test := range []struct{ name, method, path string }{
		{"get", http.MethodGet, object},
		{"list", http.MethodGet, collection},
		{"watch", http.MethodGet, collection + "?watch=true"},
		{"create", http.MethodPost, collection},
		{"update", http.MethodPut, object},
		{"delete", http.MethodDelete, object},
		{"delete all", http.MethodDelete, collection},
	} {
		var body []byte
		if test.method != http.MethodGet {
			// A write might be on the wire before it is noticed.
			fleet.awaitServing(t)
			body = r.Object("a", "0", "")
		}
		for _, address := range fleet.addresses() {
			a, err := traffic.NewClient(t, address.Admin(), 1).Send(t.Context(), test.method, test.path, body)
			if err == nil {
				err = isUnavailable(a)
			}
			assert.NoError(t, err, test.name)
			slowest = max(slowest, a.Ended.Sub(a.Began)) // with the time for a connection
		}
	}
	measured(t, "slowest", slowest)
}

// isUnavailable expects a Status after which a client retries.
func isUnavailable(a traffic.Answer) error {
	if err := a.Expect(http.StatusServiceUnavailable); err != nil {
		return err
	}
	status, err := traffic.Decode(a.Body)
	if err != nil {
		return err
	}
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	switch {
	case err != nil || after < 1:
		return fmt.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	case status.Kind != "Status" || status.Code != a.Code || status.Reason != string(metav1.StatusReasonServiceUnavailable):
		return fmt.Errorf("the body is no fitting Status: %s", a.Body)
	}
	return nil
}

// measureCore has clients read and write ConfigMaps, all of which must succeed, and prints how long that takes.
func measureCore(t *testing.T, name string) {
	const clients, requests = 8, 200
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	addresses := fleet.addresses()
	all := make([]*traffic.Worker, clients)
	var working sync.WaitGroup
	for i := range all {
		w := traffic.NewWorker(traffic.NewClient(t, addresses[i%len(addresses)].Admin(), 1), traffic.ConfigMaps, namespace, i)
		all[i] = w
		working.Go(func() {
			for range requests {
				w.Work(t.Context())
			}
		})
	}
	working.Wait()
	var times []time.Duration
	for _, w := range all {
		for _, f := range w.Failures {
			t.Error(f)
		}
		for _, s := range w.Spans {
			times = append(times, s.Took())
		}
	}
	measured(t, name+"-p50", percentile(times, 50))
	measured(t, name+"-p99", percentile(times, 99))
}

// discoveryIsComplete expects clients to find custom resources. client-go leaves out groups that are marked Stale.
func discoveryIsComplete(t *testing.T) {
	for _, address := range fleet.addresses() {
		client, err := discovery.NewDiscoveryClientForConfig(address.Admin())
		require.NoError(t, err)
		_, lists, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		missing := map[string]bool{traffic.ConfigMaps.Plural: true}
		for _, r := range few {
			missing[r.Plural] = true
		}
		for _, list := range lists {
			for _, r := range list.APIResources {
				delete(missing, r.Name)
			}
		}
		assert.Empty(t, missing, "discovery is without %v", slices.Sorted(maps.Keys(missing)))
		client.UseLegacyDiscovery = true
		groups, err := client.ServerGroups()
		require.NoError(t, err)
		if !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "example.com" }) {
			t.Errorf("discovery of another form is without the group: %v", groups)
		}
	}
}

func kubectlWorks(t *testing.T, user kubectl) {
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	manifest := `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {value: "%d"}}`
	for _, test := range []struct {
		args  []string
		input string
		want  []string
	}{
		{args: []string{"get", "pods"}, want: []string{"No resources found"}},
		{args: []string{"api-resources"}, want: []string{"pods", "deployments", "customresourcedefinitions", few[0].Plural}},
		{args: []string{"apply", "-f", "-"}, input: fmt.Sprintf(manifest, 1), want: []string{"configmap/a created"}},
		{args: []string{"apply", "-f", "-"}, input: fmt.Sprintf(manifest, 2), want: []string{"configmap/a configured"}},
		{args: []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, input: fmt.Sprintf(manifest, 3), want: []string{"configmap/a serverside-applied"}},
	} {
		began := time.Now()
		if err := user.run(t.Context(), test.input, test.want, append(test.args, "--namespace", namespace)...); err != nil {
			t.Errorf("kubectl %v: %v", test.args, err)
		}
		measured(t, "kubectl-"+test.args[0], time.Since(began))
	}
}
