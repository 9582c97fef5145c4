// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// freezing is a server that can stop to answer.
type freezing struct {
	server
	frozen atomic.Bool
	asked  atomic.Int64
}

func (f *freezing) RoundTrip(req *http.Request) (*http.Response, error) {
	f.asked.Add(1)
	if f.frozen.Load() {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return f.server.RoundTrip(req)
}

func TestASilentServerDelaysClientsOnce(t *testing.T) {
	const index = `{"paths":{"apis/example.com/v1":{"serverRelativeURL":"e"}}}`
	for name, test := range map[string]struct {
		path, document string
		handler        func([]backend) http.Handler
	}{
		"v2": {pathV2, extensionsDocument, func(all []backend) http.Handler {
			return NewV2(all, http.NotFoundHandler())
		}},
		"v3": {pathV3, index, func(all []backend) http.Handler {
			return NewV3(all, http.NotFoundHandler())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				extensions := &freezing{server: server{document: test.document, etag: `"e1"`}}
				handler := test.handler(backends(&server{document: coreDocument, etag: `"c1"`}, extensions))
				ask := func() string {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, nil))
					return w.Body.String()
				}
				before := ask()
				extensions.frozen.Store(true)
				extensions.asked.Store(0)
				begin := time.Now()
				var clients sync.WaitGroup
				for range 50 {
					clients.Go(func() {
						if got := ask(); got != before {
							t.Errorf("a client got %s", got)
						}
					})
				}
				clients.Wait()
				if took := time.Since(begin); took > silence {
					t.Errorf("50 clients waited %s", took)
				}
				if ask(); time.Since(begin) > silence {
					t.Errorf("the next client waited too")
				}
				if n := extensions.asked.Load(); n != 1 {
					t.Errorf("the silent server was asked %d times", n)
				}

				extensions.frozen.Store(false)
				time.Sleep(fetchTimeout)
				synctest.Wait()
				extensions.etag = `"e2"`
				extensions.document = `{"paths":{"new":{}}}`
				if got := ask(); got == before {
					t.Errorf("a client does not see the change after the silence: %s", got)
				}
			})
		})
	}
}

func TestAClientSeesWhatChangedBeforeItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		changing := backends(roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			s := &server{document: "old", etag: "old"}
			if changed.Load() {
				s = &server{document: "new", etag: "new"}
			}
			time.Sleep(silence / 4)
			return s.RoundTrip(req)
		}))
		p := partsOf(changing, pathV3, mediaJSON, readWhole)[0]
		go p.refresh(t.Context())
		synctest.Wait() // the server has begun to answer
		changed.Store(true)
		p.refresh(t.Context())
		if etag := p.last.Load().etag; etag != "new" {
			t.Errorf("the client got what was %s", etag)
		}
	})
}
