// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package liar

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// fleet is shared by the tests. A lie is served in the place of extensions-1.
var fleet *framework.Fleet

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
			{Name: "core-0"}, {Name: "extensions-0"}, {Name: "aggregator-0", Args: []string{"--enable-aggregator-routing"}},
			{Name: "extensions-1", Later: true}, {Name: "aggregator-1", Later: true},
		}})
		return err
	})
}

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// requests are enough for some to be sent to either replica of extensions.
const requests = 40

func TestALyingExtensionsDoesNotBecomeCore(t *testing.T) {
	l := &lie{claims: []schema.GroupVersion{
		{Version: "v1"}, {Group: "authentication.k8s.io", Version: "v1"}, {Group: "rbac.authorization.k8s.io", Version: "v1"},
		{Group: "rbac.authorization.k8s.io", Version: "v9"}, {Group: "lies.example.com", Version: "v1"},
	}}
	l.serve(t)
	before := traffic.NewClient(t, fleet.Admin(), 1)
	before.Await(t, "the claims are heard", apiServices+"/v1.lies.example.com", http.StatusOK)
	// As if an aggregator had accepted them once.
	for _, name := range []string{"v1.", "v1.rbac.authorization.k8s.io"} {
		patch := []byte(`[{"op":"add","path":"/spec/service","value":{"namespace":"tripod-system","name":"extensions","port":443}}]`)
		patched := kubernetes.NewForConfigOrDie(fleet.Admin()).RESTClient().Patch("application/json-patch+json").AbsPath(apiServices, name).Body(patch)
		require.NoError(t, patched.Do(t.Context()).Error())
	}
	late := fleet.Replica("aggregator-1")
	require.NoError(t, late.Start())
	require.NoError(t, late.WaitReady(t.Context()))
	t.Cleanup(func() { assert.NoError(t, late.Stop()) })
	after := traffic.NewClient(t, fleet.Through("aggregator-1").Admin(), 1)

	for _, name := range []string{"v1.", "v1.rbac.authorization.k8s.io"} {
		framework.Eventually(t, name+" names core again", func(ctx context.Context) error {
			answer, err := after.Send(ctx, http.MethodGet, apiServices+"/"+name, nil)
			if err == nil && !bytes.Contains(answer.Body, []byte(`"name":"core"`)) {
				err = fmt.Errorf("it is %s", answer.Body)
			}
			return err
		})
	}
	l.asked.Store(0)
	for name, client := range map[string]*traffic.Client{"aggregator-0": before, "aggregator-1": after} {
		for _, path := range []string{
			"/api/v1/secrets", "/api/v1", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1",
			"/apis/rbac.authorization.k8s.io/v9/lies",
		} {
			for range requests / 5 {
				answer, err := client.Send(t.Context(), http.MethodGet, path, nil)
				require.NoError(t, err)
				require.NotContains(t, string(answer.Body), `"name":"lie"`, path)
			}
		}
		_, lists, err := kubernetes.NewForConfigOrDie(fleet.Through(name).Admin()).Discovery().ServerGroupsAndResources()
		require.NoError(t, err)
		claimed := map[string]bool{"v1": false, "rbac.authorization.k8s.io/v1": false}
		for _, list := range lists {
			lies := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "lies" })
			if want, ok := claimed[list.GroupVersion]; ok {
				assert.Equal(t, want, lies, "%s has lies about %s", name, list.GroupVersion)
			}
		}
	}
	assert.Zero(t, l.asked.Load(), "requests that the false replica got")
}

func TestALyingExtensionsDoesNotRedirectClients(t *testing.T) {
	l := &lie{answer: func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "https://evil.invalid/loot", http.StatusTemporaryRedirect)
	}}
	l.serve(t)
	client := traffic.NewClient(t, fleet.Admin(), 1)
	framework.Eventually(t, "the false replica gets requests", func(ctx context.Context) error {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for i := range requests {
				answer, err := client.Send(ctx, method, fmt.Sprintf("/apis/evil%d.example.com/v1/things", i), nil)
				require.NoError(t, err, "the client follows a redirect") // to a host that does not exist
				require.Contains(t, []int{http.StatusNotFound, http.StatusBadGateway}, answer.Code)
			}
		}
		if l.asked.Load() == 0 {
			return fmt.Errorf("it got none")
		}
		return nil
	})
}

// TestStatusesThatHTTPDoesNotHave has the false replica alone, so that requests of the aggregator itself to extensions get them, too.
func TestStatusesThatHTTPDoesNotHave(t *testing.T) {
	honest, aggregator := fleet.Replica("extensions-0"), fleet.Replica("aggregator-0")
	client := traffic.NewClient(t, fleet.Admin(), 1)
	require.NoError(t, honest.Stop())
	for _, status := range []string{"-100", "1", "99", "101", "1000"} {
		t.Run(status, func(t *testing.T) {
			l := &lie{status: status}
			l.serve(t)
			framework.Eventually(t, "the false replica gets requests", func(ctx context.Context) error {
				for _, request := range []string{"GET /apis/evil.example.com/v1/things", "POST /apis/evil.example.com/v1/things", "GET /", "GET /openapi/v3"} {
					var method, path string
					_, err := fmt.Sscan(request, &method, &path)
					require.NoError(t, err)
					_, err = client.Send(ctx, method, path, nil)
					require.NoError(t, err, request)
				}
				if l.asked.Load() < 4 {
					return fmt.Errorf("it got %d", l.asked.Load())
				}
				return nil
			})
			require.NoError(t, aggregator.WaitReady(t.Context()))
		})
	}
	require.NoError(t, honest.Start())
	require.NoError(t, honest.WaitReady(t.Context()))
	select {
	case <-aggregator.Process().Done():
		t.Error("the aggregator has ended")
	default:
	}
}

// TestDocumentsWithoutAnEnd has the false replica alone, so that the aggregator asks it for all documents.
func TestDocumentsWithoutAnEnd(t *testing.T) {
	honest, aggregator := fleet.Replica("extensions-0"), fleet.Replica("aggregator-0")
	client := traffic.NewClient(t, fleet.Admin(), 1)
	require.NoError(t, honest.Stop())
	l := &lie{endless: true}
	l.serve(t)
	paths := map[string]string{"/openapi/v2": `"/api/v1/namespaces"`, "/openapi/v3": `"api/v1"`, "/apis": `"apps"`}
	framework.Eventually(t, "the false replica is asked for each document", func(ctx context.Context) error {
		for path, want := range paths {
			answer, err := client.Send(ctx, http.MethodGet, path, nil)
			require.NoError(t, err)
			require.NoError(t, answer.Expect(http.StatusOK))
			require.Contains(t, string(answer.Body), want, path)
		}
		if n := l.documents.Load(); n < 4 {
			return fmt.Errorf("it was asked for %d", n)
		}
		return nil
	})
	require.NoError(t, honest.Start())
	require.NoError(t, honest.WaitReady(t.Context()))
	select {
	case <-aggregator.Process().Done():
		t.Error("the aggregator has ended")
	default:
	}
}
