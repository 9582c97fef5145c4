// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
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

// TestAReadAtASilentReplicaIsGivenUpBeforeWritesAndWatches has a read and a write be sent to the only replica when it has just stopped. Once the read
// is answered it goes on. Then it answers the write, and a watch there goes on, too. Both end only if the machine is so slow that the replica goes on
// too late.
func TestAReadAtASilentReplicaIsGivenUpBeforeWritesAndWatches(t *testing.T) {
	const attempts, all = 5, "/apis/example.com/v1/namespaces/default/boats"
	dynamicClient, err := dynamic.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	boats := dynamicClient.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}).Namespace("default")
	client := traffic.NewClient(t, fleet.Admin(), 2)
	client.Await(t, "boats are served", all, http.StatusOK)
	boat := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":%q}}`, name)
	}
	for range attempts {
		watch, err := boats.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		resume := pause(t, "extensions-0")
		written := make(chan traffic.Answer, 1)
		go func() {
			defer close(written)
			answer, err := client.Send(t.Context(), http.MethodPost, all, []byte(boat(framework.UniqueName("underway"))))
			if assert.NoError(t, err) {
				written <- answer
			}
		}()
		read, err := client.Send(t.Context(), http.MethodGet, all, nil)
		require.NoError(t, err)
		assert.NoError(t, read.Expect(http.StatusServiceUnavailable))
		assert.NotEmpty(t, read.Header.Get("Retry-After"))
		resume()
		write := <-written
		goesOn := write.Expect(http.StatusCreated) == nil
		if !goesOn {
			// It may have been carried out, for all that anybody knows.
			assert.NoError(t, write.Expect(http.StatusBadGateway))
			assert.Empty(t, write.Header.Get("Retry-After"))
		}
		require.False(t, t.Failed())
		client.Await(t, "boats are served again", all, http.StatusOK)
		name := framework.UniqueName("after")
		client.Need(t, http.MethodPost, all, []byte(boat(name)))
		hears := false
		for event := range watch.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok && object.GetName() == name {
				hears = true
				break
			}
		}
		watch.Stop()
		if goesOn && hears {
			return
		}
	}
	t.Errorf("the write or the watch ended each of %d times", attempts)
}
