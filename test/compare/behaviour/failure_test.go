// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// startTripod starts a Tripod of which one test may break or stop what it likes.
func startTripod(t testing.TB, options framework.TripodOptions) *framework.Tripod {
	t.Helper()
	both.NeedsTripod(t)
	tripod, err := framework.ForTest(t).StartTripod(t.Context(), options)
	require.NoError(t, err)
	return tripod
}

// outage is what clients may see of a kind of request while a process is dead. Otherwise answers are 200.
type outage int

const (
	nothing outage = iota
	// unavailable is a 503 with a Status and a Retry-After.
	unavailable
	// unreachable is also no answer at all.
	unreachable
)

func TestKilledProcessesAreRestartedAndClientsGoOn(t *testing.T) {
	t.Parallel()
	tripod := startTripod(t, framework.TripodOptions{})
	world := newWorld(t, tripod)
	for _, test := range []struct {
		component               string
		core, custom, discovery outage
	}{
		{"extensions", nothing, unavailable, nothing},
		{"core", unavailable, unavailable, nothing},
		{"aggregator", unreachable, unreachable, unreachable},
		{"etcd", unavailable, unavailable, nothing},
	} {
		t.Run(test.component, func(t *testing.T) {
			if test.component == "etcd" {
				needsEtcd(t, "it is no process of tripod up")
			}
			before, err := tripod.Component(t.Context(), test.component)
			require.NoError(t, err)
			stop := world.traffic(t, test.core, test.custom, test.discovery)
			require.NoError(t, syscall.Kill(before.PID, syscall.SIGKILL))
			framework.Eventually(t, "Tripod has restarted it", func(ctx context.Context) error {
				now, err := tripod.Component(ctx, test.component)
				if err == nil && (now.PID == before.PID || !now.Ready || now.Restarts != before.Restarts+1) {
					err = fmt.Errorf("status is %+v", now)
				}
				return err
			})
			require.NoError(t, tripod.WaitReady(t.Context()))
			world.answers(t)
			stop()
			world.isComplete(t)
		})
	}
}

// world is a Tripod with objects, and informers that have followed them from the beginning.
type world struct {
	tripod    *framework.Tripod
	namespace string
	resources []resource
	informers []cache.SharedIndexInformer
	// names are the objects that there are of each resource.
	names []string
}

func newWorld(t testing.TB, tripod *framework.Tripod) *world {
	t.Helper()
	gvr, err := createCRD(t.Context(), tripod.Cluster, newWidgets())
	require.NoError(t, err)
	w := &world{
		tripod:    tripod,
		namespace: framework.CreateNamespace(t, tripod.Cluster),
		resources: []resource{configMaps, {gvr, "Widget"}},
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient(t, tripod.Admin()), 0, w.namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = "numbered=yes" })
	for _, r := range w.resources {
		w.informers = append(w.informers, factory.ForResource(r.GroupVersionResource).Informer())
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	w.isComplete(t)
	return w
}

// path returns the path of an object that is there from the beginning.
func (w *world) path(r resource) string { return r.path(w.namespace) + "/n-0" }

// isComplete expects every object that ever was, creates one more, and expects informers to see it.
func (w *world) isComplete(t testing.TB) {
	t.Helper()
	for i, r := range w.resources {
		client := r.of(t, w.tripod.Cluster, w.namespace)
		for _, name := range w.names {
			object, err := client.Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, "red", color(object), "%s %s has the color", r.kind, name)
		}
		key := w.namespace + "/" + create(t, client, numbered(r, len(w.names))).GetName()
		framework.Eventually(t, "the informer of "+r.kind+" sees the new object", func(context.Context) error {
			if _, found, _ := w.informers[i].GetStore().GetByKey(key); !found {
				return fmt.Errorf("it has %v", w.informers[i].GetStore().ListKeys())
			}
			return nil
		})
	}
	w.names = append(w.names, fmt.Sprintf("n-%d", len(w.names)))
}

// answers waits until everything answers again.
func (w *world) answers(t testing.TB) {
	t.Helper()
	for _, path := range []string{w.path(w.resources[0]), w.path(w.resources[1]), "/apis"} {
		framework.Eventually(t, path+" answers", func(ctx context.Context) error {
			resp, err := send(ctx, w.tripod.Admin(), http.MethodGet, path, nil, nil)
			if err == nil && resp.Code != http.StatusOK {
				err = fmt.Errorf("%d: %s", resp.Code, resp.Body)
			}
			return err
		})
	}
}

// traffic reads all the time, until stop is called; that returns after every reader has seen an answer afterwards.
func (w *world) traffic(t testing.TB, core, custom, discovery outage) (stop func()) {
	t.Helper()
	group := w.resources[1].Group
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, read := range []struct {
		path, text string
		allowed    outage
	}{
		{w.path(w.resources[0]), `"red"`, core},
		{w.path(w.resources[1]), `"red"`, custom},
		{"/apis", group, discovery},
	} {
		readers.Go(func() {
			for seen := map[string]bool{}; ctx.Err() == nil; time.Sleep(trafficInterval) {
				err := w.read(t.Context(), read.path, read.text, read.allowed)
				if err != nil && !seen[err.Error()] {
					seen[err.Error()] = true
					t.Errorf("GET %s: %v", read.path, err)
				}
			}
		})
	}
	return func() {
		cancel()
		readers.Wait()
	}
}

// trafficInterval leaves the machine some time for the servers.
const trafficInterval = 5 * time.Millisecond

// read returns what is wrong with an answer where some are allowed.
func (w *world) read(ctx context.Context, path, text string, allowed outage) error {
	resp, err := send(ctx, w.tripod.Admin(), http.MethodGet, path, nil, nil)
	switch {
	case err != nil && allowed == unreachable:
		return nil
	case err != nil:
		return err
	case resp.Code == http.StatusOK && strings.Contains(string(resp.Body), text):
		return nil
	case resp.Code == http.StatusServiceUnavailable && allowed != nothing:
		if resp.Header.Get("Retry-After") == "" || !strings.Contains(string(resp.Body), `"reason":"ServiceUnavailable"`) {
			return fmt.Errorf("503 with Retry-After %q: %s", resp.Header.Get("Retry-After"), resp.Body)
		}
		return nil
	}
	return fmt.Errorf("%d: %s", resp.Code, resp.Body)
}

func TestCustomResourcesAreUnavailableNotMissingWhileExtensionsIsDown(t *testing.T) {
	t.Parallel()
	tripod := startTripod(t, framework.TripodOptions{})
	world := newWorld(t, tripod)
	all, err := tripod.Status(t.Context())
	require.NoError(t, err)
	for _, component := range all {
		if component.Component == "extensions" || strings.HasPrefix(component.Component, "extensions-") { // its partitions
			require.NoError(t, syscall.Kill(component.PID, syscall.SIGKILL))
		}
	}
	for _, path := range []string{world.path(world.resources[1]), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/unknown.example.com/v1/things"} {
		resp := get(t, tripod.Admin(), path)
		if resp.Code != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.status(t).Reason != metav1.StatusReasonServiceUnavailable {
			t.Errorf("%s answers %d with Retry-After %q: %s", path, resp.Code, resp.Header.Get("Retry-After"), resp.Body)
		}
	}
	assert.NoError(t, tripod.WaitReady(t.Context()))
}
