// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestTheLastReplicaIsWaitedFor has a read and a write be sent to the only replica when it has just stopped, and a watch be there. All of them go on when
// the replica does: for all that the aggregator knows, it was only busy.
func TestTheLastReplicaIsWaitedFor(t *testing.T) {
	const all = "/apis/example.com/v1/namespaces/default/boats"
	dynamicClient, err := dynamic.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	boats := dynamicClient.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}).Namespace("default")
	client := traffic.NewClient(t, fleet.Admin(), 2)
	client.Await(t, "boats are served", all, http.StatusOK)
	boat := func(name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":%q}}`, name)
	}
	watch, err := boats.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	resume := pause(t, "extensions-0")
	type result struct {
		traffic.Answer
		err error
	}
	send := func(method string, body []byte) <-chan result {
		answered := make(chan result, 1)
		go func() {
			answer, err := client.Send(t.Context(), method, all, body)
			answered <- result{answer, err}
		}()
		return answered
	}
	written, read := send(http.MethodPost, boat(framework.UniqueName("underway"))), send(http.MethodGet, nil)
	framework.Eventually(t, "the replica is frozen", func(ctx context.Context) error {
		frozen, err := fleet.Metric(ctx, "aggregator-0", "tripod_backend_endpoints", "backend=extensions", "state=frozen")
		if err == nil && frozen != 1 {
			err = fmt.Errorf("%v are", frozen)
		}
		return err
	})
	late := send(http.MethodPost, boat(framework.UniqueName("late")))
	resume()
	for want, answered := range map[int][]<-chan result{http.StatusCreated: {written, late}, http.StatusOK: {read}} {
		for _, answer := range answered {
			got := <-answer
			require.NoError(t, got.err)
			assert.NoError(t, got.Expect(want))
		}
	}
	name := framework.UniqueName("after")
	client.Need(t, http.MethodPost, all, boat(name))
	for event := range watch.ResultChan() {
		if object, ok := event.Object.(*unstructured.Unstructured); ok && object.GetName() == name {
			return
		}
	}
	t.Error("the watch ended")
}
