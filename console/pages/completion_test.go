// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

func TestFewSessionsLookForPartsAtOnce(t *testing.T) {
	t.Parallel()
	counting, answer := make(chan string, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		counting <- req.Header.Get("Authorization")
		<-answer
		io.WriteString(w, `{"groups": [{"values": ["east", "shop"], "count": 1}]}`) //nolint:errcheck // the test fails
	}))
	defer server.Close()
	looks := access.NewPlaces(1, 0)
	session := func(token string) *console {
		client, err := searchclient.New(&rest.Config{Host: server.URL, BearerToken: token})
		require.NoError(t, err)
		return &console{hub: client, session: t.Context(), looks: looks}
	}
	ann, tom := session("ann"), session("tom")
	assert.Empty(t, ann.parts(t.Context()), "search does not answer in time")
	assert.Equal(t, "Bearer ann", <-counting)
	assert.Empty(t, tom.parts(t.Context()), "the only place is taken")
	close(answer)
	assert.Equal(t, "Bearer ann", <-counting)
	want := query.Part{Key: "cluster", Value: "east"}
	require.Eventually(t, func() bool {
		return len(tom.parts(t.Context())) > 0
	}, time.Minute, time.Millisecond, "the place is free again")
	assert.Contains(t, tom.parts(t.Context()), want)
	assert.Equal(t, "Bearer tom", <-counting)
	assert.Equal(t, "Bearer tom", <-counting)
	assert.Contains(t, ann.parts(t.Context()), want)
	assert.Empty(t, counting, "no session has looked while another one did")
}
