// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

var (
	resolver = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	alice    = &user.DefaultInfo{Name: "alice"}
	itself   = &user.DefaultInfo{Name: user.APIServerUser}
)

// answer returns how a handler answers a user.
func answer(t *testing.T, handler func(http.Handler) http.Handler, sender user.Info, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, path, nil)
	info, err := resolver.NewRequestInfo(req)
	require.NoError(t, err)
	ctx := request.WithRequestInfo(request.WithUser(req.Context(), sender), info)
	recorder := httptest.NewRecorder()
	handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(recorder, req.WithContext(ctx))
	return recorder
}

func TestGroupsOfOthersAreUnavailable(t *testing.T) {
	byDefault := Partition{big.Table, partitions.Default}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, test := range []struct {
		name      string
		partition Partition
		sender    user.Info
		path      string
		want      int
	}{
		{"an own group", big, alice, "/apis/a.example.com/v1/boats", http.StatusOK},
		{"a group of another partition", big, alice, "/apis/example.org/v1/boats", http.StatusServiceUnavailable},
		{"a group of the default partition", big, alice, "/apis/example.com/v1/boats", http.StatusServiceUnavailable},
		{"the document of a group", big, alice, "/apis/example.com", http.StatusServiceUnavailable},
		{"the OpenAPI of a group", big, alice, "/openapi/v3/apis/example.com/v1", http.StatusServiceUnavailable},
		{"the OpenAPI of an own group", big, alice, "/openapi/v3/apis/a.example.com/v1", http.StatusOK},
		{"all groups", big, alice, "/apis", http.StatusOK},
		{"no group", big, alice, "/apis/", http.StatusOK},
		{"probes", big, alice, "/readyz", http.StatusOK},
		{"definitions", big, alice, definitions, http.StatusServiceUnavailable},
		{"definitions for its informer", big, itself, definitions, http.StatusOK},
		{"the default partition has the rest", byDefault, alice, "/apis/example.com/v1/boats", http.StatusOK},
		{"the default partition has definitions", byDefault, alice, definitions, http.StatusOK},
		{"the default partition lacks groups of others", byDefault, alice, "/apis/a.example.com/v1/boats", http.StatusServiceUnavailable},
		{"and serves them not even to itself", byDefault, itself, "/apis/example.org/v1/boats", http.StatusServiceUnavailable},
	} {
		got := answer(t, test.partition.RefuseOtherGroups, test.sender, http.MethodGet, test.path)
		assert.Equal(t, test.want, got.Code, test.name)
		if test.want != http.StatusOK {
			assert.Equal(t, "1", got.Header().Get("Retry-After"), test.name)
		}
	}
	output := answer(t, big.RefuseOtherGroups, alice, http.MethodGet, "/apis/example.org/v1").Body.String()
	assert.Contains(t, output, "extensions-big does not serve the API group example.org: extensions-other does")
}

func TestAPartitionChangesNoDefinitionOfOthers(t *testing.T) {
	byDefault := Partition{big.Table, partitions.Default}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	service := trusttest.Backend(t, trust.UserOf("extensions-big"))
	for _, test := range []struct {
		name         string
		sender       user.Info
		method, path string
		want         int
	}{
		{"its own", service, http.MethodPut, definitions + "/boats.a.example.com/status", http.StatusOK},
		{"of another partition", service, http.MethodPut, definitions + "/boats.example.org/status", http.StatusForbidden},
		{"of the default partition", service, http.MethodPut, definitions + "/boats.example.com/status", http.StatusForbidden},
		{"all", service, http.MethodDelete, definitions, http.StatusForbidden},
		{"parameters of a policy", service, http.MethodGet, definitions, http.StatusOK},
		{"something else", service, http.MethodPut, "/apis/example.com/v1/boats/a", http.StatusOK},
		{"another service", trusttest.Backend(t, trust.UserOf("search")), http.MethodPatch, definitions + "/boats.example.org", http.StatusOK},
		{"an unknown partition", trusttest.Backend(t, trust.UserOf("extensions-unknown")), http.MethodPut, definitions + "/boats.example.org/status",
			http.StatusForbidden},
		{"a user", alice, http.MethodPut, definitions + "/boats.example.org/status", http.StatusOK},
		{"a user with a similar name", &user.DefaultInfo{Name: "system:tripod:extensions-big"}, http.MethodPut, definitions + "/boats.example.org/status",
			http.StatusOK},
	} {
		assert.Equal(t, test.want, answer(t, byDefault.RefuseOtherStatus, test.sender, test.method, test.path).Code, test.name)
	}
	got := answer(t, Partition{}.RefuseOtherStatus, service, http.MethodPut, definitions+"/boats.a.example.com/status")
	assert.Equal(t, http.StatusForbidden, got.Code, "a partition that is not in the list any more")
}

func TestOnlyTheServerItselfIsMarked(t *testing.T) {
	for sender, want := range map[user.Info]bool{alice: false, itself: true} {
		for _, sent := range []bool{false, true} {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			if sent {
				req.Header.Set(header, "true")
			}
			var marked bool
			Mark(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				marked = req.Context().Value(markKey{}) != nil
			})).ServeHTTP(httptest.NewRecorder(), req.WithContext(request.WithUser(req.Context(), sender)))
			assert.Equal(t, want && sent, marked, sender.GetName())
		}
	}
}

func TestWritesGoToTheDefaultPartition(t *testing.T) {
	var at string
	to := func(name string) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			at = strings.TrimSpace(name + " " + req.Header.Get("Authorization") + " " + req.Header.Get(header))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
	}
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com"
	for _, test := range []struct {
		name, method, path string
		byDefault          bool
		want               string
	}{
		{"a read", http.MethodGet, definition, false, "self Bearer own true"},
		{"a write", http.MethodPut, definition + "/status", false, "aggregator"},
		{"something else", http.MethodPut, "/api/v1/namespaces", false, "self Bearer own"},
		{"a read of the default partition", http.MethodGet, definition, true, "self Bearer own true"},
		{"a write of the default partition", http.MethodPut, definition, true, "self Bearer own true"},
	} {
		loopback := &rest.Config{Host: "https://self", BearerToken: "own", Transport: to("self")}
		var writes http.RoundTripper
		if !test.byDefault {
			writes = to("aggregator")
		}
		transport, err := rest.TransportFor(Client(loopback, writes))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), test.method, "https://self"+test.path, nil)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, test.want, at, test.name)
		assert.Nil(t, loopback.WrapTransport, "the configuration of others stays as it is")
	}
}
