// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

func TestClientsMayRetryOnlyWhatCannotHappenTwice(t *testing.T) {
	unreachable := &upstream.UnreachableError{Backend: "core", Failures: []string{"refused"}}
	broken := errors.New("connection reset")
	backend, aggregated := "/api/v1/pods", "/apis/third.example.com/v1/things"
	for name, test := range map[string]struct {
		method, path string
		upgrade      bool
		err          error
		code         int
		retry        string
	}{
		"a read never left":                             {http.MethodGet, backend, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a write never left":                            {http.MethodPost, backend, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a read broke off":                              {http.MethodGet, backend, false, broken, http.StatusServiceUnavailable, "1"},
		"a create broke off":                            {http.MethodPost, backend, false, broken, http.StatusBadGateway, ""},
		"a patch broke off":                             {http.MethodPatch, backend, false, broken, http.StatusBadGateway, ""},
		"a removal broke off":                           {http.MethodDelete, backend, false, broken, http.StatusBadGateway, ""},
		"a read of an aggregated server never left":     {http.MethodGet, aggregated, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a write to an aggregated server never left":    {http.MethodPost, aggregated, false, unreachable, http.StatusServiceUnavailable, "1"},
		"a read of an aggregated server broke off":      {http.MethodGet, aggregated, false, broken, http.StatusServiceUnavailable, "1"},
		"a create in an aggregated server broke off":    {http.MethodPost, aggregated, false, broken, http.StatusBadGateway, ""},
		"a tunnel to an aggregated server never left":   {http.MethodPost, aggregated, true, unreachable, http.StatusServiceUnavailable, "1"},
		"a tunnel to an aggregated server broke off":    {http.MethodPost, aggregated, true, broken, http.StatusBadGateway, ""},
		"a WebSocket to an aggregated server broke off": {http.MethodGet, aggregated, true, broken, http.StatusBadGateway, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var handler http.Handler = NewForwarder("core", failing(test.err), requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil)
			if test.path == aggregated {
				handler = third(answering{ready: true, err: test.err}, apiregistrationv1.ConditionTrue)
			}
			req := httptest.NewRequest(test.method, test.path, nil)
			if test.upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "SPDY/3.1")
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, req.WithContext(request.WithUser(context.Background(), jane)))

			var status metav1.Status
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
			assert.Equal(t, "Status", status.Kind)
			assert.Equal(t, test.code, w.Code)
			assert.Equal(t, test.code, int(status.Code))
			assert.Equal(t, test.retry, w.Header().Get("Retry-After"))
		})
	}
}

// TestAClientIsNotToBlameIfABackendRefusesTheAggregator is about certificates of the aggregator that have expired, or are of another CA.
func TestAClientIsNotToBlameIfABackendRefusesTheAggregator(t *testing.T) {
	for name, test := range map[string]struct {
		path    string
		refused bool
		want    int
	}{
		"the backend refuses the aggregator":                     {forObjects, true, http.StatusServiceUnavailable},
		"the backend refuses the aggregator for another request": {forOthers, true, http.StatusServiceUnavailable},
		"an application behind the backend refuses the client":   {forObjects, false, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			front := front(t, jane, func(w http.ResponseWriter, _ *http.Request) {
				if test.refused {
					w.Header().Set(envelope.RefusedHeader, "true")
				}
				w.WriteHeader(http.StatusUnauthorized)
			})
			resp, err := http.Get(front.URL + test.path)
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, test.want, resp.StatusCode)
			assert.Empty(t, resp.Header.Get(envelope.RefusedHeader))
		})
	}
}

func TestAClientThatWentAwayGetsNoAnswer(t *testing.T) {
	for protocol, want := range map[int]any{1: http.ErrAbortHandler, 2: nil} { // panics are logged
		ctx, cancel := context.WithCancel(request.WithUser(t.Context(), jane))
		cancel()
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		req.ProtoMajor = protocol
		w := &httptest.ResponseRecorder{}
		func() {
			defer func() { assert.Equal(t, want, recover(), "HTTP/%d", protocol) }()
			NewForwarder("core", failing(context.Canceled), requestmemory.New(0), NewEndings(), aggregatorscheme.Codecs, nil).ServeHTTP(w, req)
		}()
		assert.Zero(t, w.Code, "HTTP/%d", protocol)
	}
}

// answering is an upstream that answers with its name, or fails.
type answering struct {
	ready bool
	err   error
}

func (a answering) Ready() bool { return a.ready }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("here"))}, nil
}

func TestAnAggregatedServerIsAskedWhenItsConditionOrAnEndpointIsGood(t *testing.T) {
	for name, test := range map[string]struct {
		condition apiregistrationv1.ConditionStatus
		ready     bool
		code      int
	}{
		"both are good":          {apiregistrationv1.ConditionTrue, true, http.StatusOK},
		"the checks may be late": {apiregistrationv1.ConditionTrue, false, http.StatusOK},
		"the condition may be":   {apiregistrationv1.ConditionFalse, true, http.StatusOK},
		"neither is good":        {apiregistrationv1.ConditionFalse, false, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/apis/third.example.com/v1/things", nil)
			third(answering{ready: test.ready}, test.condition).ServeHTTP(w, req.WithContext(request.WithUser(context.Background(), jane)))
			assert.Equal(t, test.code, w.Code, "answer is %d: %s", w.Code, w.Body)
		})
	}
}

// A backend would end the HTTP/2 connection, on which others wait, because of headers that HTTP/1.1 lets in.
func TestHeadersThatABackendWouldNotTakeStayHere(t *testing.T) {
	front := front(t, jane, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+forObjects, nil)
	require.NoError(t, err)
	for i := range 30_000 {
		req.Header[fmt.Sprintf("X-%d", i)] = []string{"y"}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
}
