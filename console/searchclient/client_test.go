// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package searchclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

// asking returns a client of a server, and what the server was asked.
func asking(t *testing.T, serve http.HandlerFunc) (client *Client, asked func() []string) {
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		all = append(all, req.Method+" "+req.URL.Path)
		serve(w, req)
	}))
	t.Cleanup(server.Close)
	client, err := New(&rest.Config{Host: server.URL + "/below"})
	require.NoError(t, err)
	return client, func() []string { return all }
}

func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	client, asked := asking(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	for method, paths := range map[string][]string{
		http.MethodPost:   {"/api/v1/pods", reviews + "/x", reviews + "?dryRun=All", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x"},
		http.MethodPut:    {"/api/v1/pods/x", reviews},
		http.MethodPatch:  {"/api/v1/pods/x"},
		http.MethodDelete: {"/api/v1/pods/x"},
	} {
		for _, path := range paths {
			req, err := http.NewRequestWithContext(t.Context(), method, client.URL(path, nil), nil)
			require.NoError(t, err)
			_, err = client.do(req)
			assert.ErrorContains(t, err, "the console changes nothing", "%s %s", method, path)
		}
	}
	assert.Empty(t, asked())
	_, err := client.Get(t.Context(), "/api", nil, "application/json")
	require.NoError(t, err)
	_, err = client.Reader(t.Context())
	require.NoError(t, err)
	for _, path := range posts[1:] {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.URL(path, nil), nil)
		require.NoError(t, err)
		_, err = client.do(req)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{
		"GET /below/api", "POST /below" + reviews, "POST /below/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"POST /below/apis/authorization.k8s.io/v1/subjectaccessreviews",
	}, asked())
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	client, asked := asking(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "/elsewhere", http.StatusFound)
	})
	_, err := client.Get(t.Context(), "/api", nil, "application/json")
	assert.ErrorContains(t, err, "302")
	assert.Equal(t, []string{"GET /below/api"}, asked())
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	client, _ := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		megabyte := strings.Repeat(" ", 1<<20)
		for range maxAnswer>>20 + 1 {
			fmt.Fprint(w, megabyte)
		}
	})
	_, err := client.Get(t.Context(), "/api", nil, "application/json")
	assert.ErrorContains(t, err, fmt.Sprintf("more than %d MiB", maxAnswer>>20))
}

func TestErrorsAndWarningsOfTheServer(t *testing.T) {
	t.Parallel()
	client, _ := asking(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/below/good":
			w.Header().Add("Warning", `299 - "cluster \"x\" is old"`)
			w.Header().Set("Search-Staleness", "east=3.2")
		case "/below/status":
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind": "Status", "message": "too old"}`)
		default:
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, strings.Repeat("x", 1000))
		}
	})
	answer, err := client.Get(t.Context(), "/good", nil, "application/json")
	require.NoError(t, err)
	assert.Equal(t, []string{`cluster "x" is old`}, answer.Warnings)
	assert.Equal(t, "east=3.2", answer.Staleness)
	_, err = client.Get(t.Context(), "/status", nil, "application/json")
	assert.Equal(t, &Error{http.StatusGone, "too old"}, err)
	_, err = client.Get(t.Context(), "/other", nil, "application/json")
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 300)
}
