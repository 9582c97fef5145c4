// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// V3 serves /openapi/v3: an index over all servers, and the documents that it points to, from the
// servers that have them.
type V3 struct {
	parts []*part
}

const pathV3 = "/openapi/v3"

// NewV3 merges the indexes of the backends with that of local, a handler of /openapi/v3 for
// the aggregator's own group and for aggregated API servers.
func NewV3[B Backend](backends []B, local http.Handler) *V3 {
	return &V3{parts: append(partsOf(backends, pathV3, mediaJSON), handlerPart("aggregator", pathV3, local))}
}

// shows reports whether clients may find a document of the server. They may not if it is about a group-version that another server serves. Of a limited
// server, they find nothing else either.
func (p *part) shows(name string, l limits) bool {
	if p.limited {
		return l.path(name)
	}
	gv, ok := ofPath(name)
	return p.serves == nil || !ok || gv.Version == "" || p.serves(gv)
}

// entry is where a document of the index is.
type entry struct {
	location json.RawMessage
	part     *part
}

// ServeHTTP answers the index, and documents by passing the request on.
func (v *V3) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	index, err := v.index(req.Context())
	if err != nil {
		klog.ErrorS(err, "OpenAPI v3 index could not be merged")
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	name, isDocument := strings.CutPrefix(req.URL.Path, pathV3+"/")
	if isDocument {
		document, exists := index[name]
		if !exists {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		document.part.proxy(w.Header(), name, req.URL.Query().Get("hash")).ServeHTTP(w, req)
		return
	}
	paths := object{}
	for name, document := range index {
		paths[name] = document.location
	}
	body := appendObject(nil, object{"paths": appendObject(nil, paths)})
	// The time of the request, as in kube-aggregator: no client may take its copy for current.
	http.ServeContent(w, req, pathV3, time.Now(), bytes.NewReader(body))
}

// index returns the documents of all servers by name, such as apis/apps/v1. The first server that
// has one of a name gives it.
func (v *V3) index(ctx context.Context) (map[string]entry, error) {
	refresh(ctx, v.parts...)
	merged := map[string]entry{}
	for _, p := range v.parts {
		document, err := p.last.Load().document()
		if err != nil {
			return nil, err
		}
		if document == nil {
			continue
		}
		var index struct {
			Paths object `json:"paths"`
		}
		if err := json.Unmarshal(document, &index); err != nil {
			klog.ErrorS(err, "Leaving the OpenAPI v3 index of a server out", "server", p.name)
			continue
		}
		var l limits
		if p.limited {
			l = newLimits(namedBy(index.Paths), p.serves)
		}
		for name, location := range index.Paths {
			if _, exists := merged[name]; !exists && p.shows(name, l) {
				merged[name] = entry{location, p}
			}
		}
	}
	return merged, nil
}

// ownHeaders are set by the aggregator's handlers before a document is passed on.
var ownHeaders = []string{
	"Audit-Id", "Cache-Control", "Strict-Transport-Security",
	"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
}

// proxy passes requests for the document of that name on in the aggregator's own name: it has authorized them. The hash is the one that the client
// asks for, or empty. The header is that of the answer.
func (p *part) proxy(header http.Header, name, hash string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			header := http.Header{"User-Agent": {userAgent}}
			for _, name := range []string{"Accept", "Accept-Encoding", "If-None-Match", "Range"} {
				if values, ok := pr.In.Header[name]; ok {
					header[name] = values
				}
			}
			pr.Out.Method, pr.Out.Header, pr.Out.Body, pr.Out.ContentLength = http.MethodGet, header, nil, 0
			pr.Out.URL.RawQuery = "" // atHash compares
		},
		Transport: roundTripper(p.fetch),
		ModifyResponse: func(resp *http.Response) error {
			for _, name := range ownHeaders {
				resp.Header.Del(name)
			}
			if hash != "" {
				atHash(header, resp, name, hash)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			klog.V(2).InfoS("OpenAPI document could not be fetched", "server", p.name, "err", err)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	}
}

// atHash makes the answer with a document one to a request for the document with a hash, as k8s.io/kube-openapi/pkg/handler3 does: if the document
// has the hash, clients may keep it for ever, and otherwise they are redirected to its present hash. The aggregator decides that itself, because a
// client follows a redirect with its credentials, so no server may send it one.
func atHash(header http.Header, resp *http.Response, name, hash string) {
	etag, err := strconv.Unquote(resp.Header.Get("Etag"))
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		return
	}
	if etag == hash {
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
		return
	}
	location := url.URL{Path: pathV3 + "/" + name, RawQuery: url.Values{"hash": {etag}}.Encode()}
	_ = resp.Body.Close() // nobody reads the document
	resp.Body, resp.ContentLength, resp.StatusCode = http.NoBody, 0, http.StatusMovedPermanently
	for _, name := range []string{"Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Range", "Last-Modified"} {
		resp.Header.Del(name) // these are about the document
	}
	resp.Header.Set("Location", location.String())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
