// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestRequestsAtASilentReplicaAreGivenUpBeforeItsWatches has a read and a write be sent to the only replica when it has just stopped. Once they
// are answered it goes on, and so does a watch there. The watch ends only if the machine is so slow that the replica goes on too late.
func TestRequestsAtASilentReplicaAreGivenUpBeforeItsWatches(t *testing.T) {
	const attempts, all = 5, "/apis/example.com/v1/namespaces/default/boats"
	dynamicClient, err := dynamic.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	boats := dynamicClient.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}).Namespace("default")
	client := traffic.NewClient(t, fleet.Admin(), 2)
	client.Await(t, "boats are served", all, http.StatusOK)
	boat := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":%q}}`, name)
	}
	for i := range attempts {
		watch, err := boats.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		resume := pause(t, "extensions-0")
		var requests sync.WaitGroup
		send := func(method, body string, check func(traffic.Answer)) {
			requests.Go(func() {
				answer, err := client.Send(t.Context(), method, all, []byte(body))
				if assert.NoError(t, err) {
					check(answer)
				}
			})
		}
		send(http.MethodGet, "", func(a traffic.Answer) {
			assert.NoError(t, a.Expect(http.StatusServiceUnavailable))
			assert.NotEmpty(t, a.Header.Get("Retry-After"))
		})
		// It may have been carried out, for all that anybody knows.
		send(http.MethodPost, boat(fmt.Sprintf("unknown-%d", i)), func(a traffic.Answer) {
			assert.NoError(t, a.Expect(http.StatusBadGateway))
			assert.Empty(t, a.Header.Get("Retry-After"))
		})
		requests.Wait()
		resume()
		require.False(t, t.Failed())
		client.Await(t, "boats are served again", all, http.StatusOK)
		name := fmt.Sprintf("after-%d", i)
		client.Need(t, http.MethodPost, all, []byte(boat(name)))
		goesOn := false
		for event := range watch.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok && object.GetName() == name {
				goesOn = true
				break
			}
		}
		watch.Stop()
		if goesOn {
			return
		}
	}
	t.Errorf("the watch ended each of %d times", attempts)
}
