// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
)

// little is memory for a request, and not for what its client does not read.
const little = 300 << 10

// frontsWith are servers that forward jane's requests to a backend, and to an aggregated API server. They share a memory.
func frontsWith(t *testing.T, memory *requestmemory.Budget, behind http.HandlerFunc) map[string]*httptest.Server {
	t.Helper()
	back, server := httptest.NewServer(behind), httptest.NewTLSServer(behind)
	t.Cleanup(back.Close)
	t.Cleanup(server.Close)
	aggregated := third(endpointsAt(t, server.Listener.Addr().String()), apiregistrationv1.ConditionTrue)
	aggregated.config.Memory = memory
	return map[string]*httptest.Server{
		"a backend":            serve(t, jane, NewForwarder("core", toServer{back}, memory, NewEndings(), aggregatorscheme.Codecs, nil)),
		"an aggregated server": serve(t, jane, aggregated),
	}
}

// asking is a request for a tunnel. Its protocol may be empty.
func asking(t *testing.T, url, protocol string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	if protocol != "" {
		req.Header.Set("Upgrade", protocol)
	}
	return req
}

func TestAnAnswerToARequestForATunnelCounts(t *testing.T) {
	long := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(make([]byte, 1<<20)) // the aggregator may not read it
	}
	for memory, want := range map[int64]int{little: http.StatusTooManyRequests, 1 << 30: http.StatusBadRequest} {
		for name, front := range frontsWith(t, requestmemory.New(memory), long) {
			for _, protocol := range []string{"", "test"} {
				if protocol == "" && name == "a backend" {
					continue // to a backend, that is a request like any other
				}
				resp, err := http.DefaultClient.Do(asking(t, front.URL+"/apis/third.example.com/v1/things", protocol))
				require.NoError(t, err)
				_ = resp.Body.Close()
				assert.Equal(t, want, resp.StatusCode, "%s with %d bytes, protocol %q", name, memory, protocol)
			}
		}
	}
}

func TestALargeHeaderCounts(t *testing.T) {
	large := func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2000 {
			w.Header().Set("X"+strconv.Itoa(i), "")
		}
	}
	for memory, want := range map[int64]int{little: http.StatusTooManyRequests, 1 << 30: http.StatusOK} {
		for name, front := range frontsWith(t, requestmemory.New(memory), large) {
			for _, query := range []string{"", "?watch=true"} {
				resp, err := http.DefaultClient.Get(front.URL + "/apis/third.example.com/v1/things" + query)
				require.NoError(t, err)
				_ = resp.Body.Close()
				assert.Equal(t, want, resp.StatusCode, "%s with %d bytes, %s", name, memory, query)
			}
		}
	}
}

func TestAnAnswerToARequestForATunnelEndsIfNobodyReadsIt(t *testing.T) {
	ended := make(chan struct{}, 2)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- struct{}{}
	}
	for name, front := range frontsWith(t, requestmemory.New(little), endless) {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, asking(t, front.URL+"/api/v1/namespaces/a/pods/b/exec", "test").Write(conn))
		t.Log("waiting for " + name)
		<-ended
	}
}

func TestAClientCancelsFewWatchesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancel := context.CancelFunc(nil)
		answered := roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			cancel() // as soon as there is an answer
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
		})
		front := NewForwarder("core", answered, requestmemory.New(64<<20), NewEndings(), aggregatorscheme.Codecs, nil)
		watch := func() int {
			var ctx context.Context
			ctx, cancel = context.WithCancel(request.WithUser(t.Context(), jane))
			defer cancel()
			req := classified(t, httptest.NewRequestWithContext(ctx, http.MethodGet, forObjects+"?watch=true", nil))
			req.ProtoMajor = 2
			w := httptest.NewRecorder()
			front.ServeHTTP(w, req)
			return w.Code
		}
		for range 2 {
			begun := 0
			for ; begun < 100 && watch() == http.StatusOK; begun++ {
			}
			assert.InDelta(t, 8, begun, 1, "watches that a client could begin")
			time.Sleep(time.Second)
			synctest.Wait()
		}
	})
}
