// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// V3 serves the index /openapi/v3. The documents that it points to are served by whom they describe.
type V3 struct {
	mu    sync.Mutex
	parts []*part
	local http.Handler
}

// NewV3 merges the indexes of core and extensions with that of local, a handler of /openapi/v3 for
// the aggregator's own group and for third parties.
func NewV3(core, extensions http.RoundTripper, local http.Handler) *V3 {
	return &V3{
		parts: []*part{
			backendPart("core", core),
			backendPart("extensions", extensions),
			handlerPart("aggregator", local),
		},
		local: local,
	}
}

// ServeHTTP answers the index, and the documents that are neither core's nor extensions'.
func (v *V3) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/openapi/v3" {
		v.local.ServeHTTP(w, req)
		return
	}
	index, err := v.index(req.Context())
	if err != nil {
		klog.ErrorS(err, "OpenAPI v3 index could not be merged")
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	// Stock sets the time of the request, so that no client takes its copy for current.
	http.ServeContent(w, req, "/openapi/v3", time.Now(), bytes.NewReader(index))
}

func (v *V3) index(ctx context.Context) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	paths := object{}
	for _, p := range v.parts {
		p.refresh(ctx, "/openapi/v3", mediaJSON)
		doc, err := p.document()
		if err != nil {
			return nil, err
		}
		if doc == nil {
			continue
		}
		var index struct {
			Paths object `json:"paths"`
		}
		if err := json.Unmarshal(doc, &index); err != nil {
			return nil, err
		}
		for path, entry := range index.Paths {
			if _, exists := paths[path]; !exists {
				paths[path] = entry
			}
		}
	}
	return appendObject(nil, object{"paths": appendObject(nil, paths)}), nil
}
