// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/parts"
	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
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
	return &V3{parts: append(partsOf(backends, pathV3, mediaJSON, readIndex), handlerPart("aggregator", pathV3, local, readLocal))}
}

// shows reports whether clients may find a document of the server. They may not if it is about a group-version that another server serves.
// Of a limited server, they find nothing else either.
func (p *part) shows(name string, l limits) bool {
	if p.limited {
		return l.path(name)
	}
	gv, ok := ofPath(name)
	return p.serves == nil || !ok || gv.Version == "" || p.serves(gv)
}

// ServeHTTP answers the index, and documents by passing the request on.
func (v *V3) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	refresh(req.Context(), v.parts...)
	if name, isDocument := strings.CutPrefix(req.URL.Path, pathV3+"/"); isDocument {
		server := v.find(name)
		if server == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		server.proxy(w.Header(), name, req.URL.Query().Get("hash")).ServeHTTP(w, req)
		return
	}
	body := appendObject(nil, object{"paths": appendObject(nil, v.locations())})
	// The time of the request, as in kube-aggregator: no client may take its copy for current.
	http.ServeContent(w, req, pathV3, time.Now(), bytes.NewReader(body))
}

const (
	// maxIndex and maxLocations bound an index of a backend. Thousands of CRDs make a megabyte.
	maxIndex, maxLocations = 4 << 20, 10_000
	// maxLocal bounds the index of all aggregated API servers.
	maxLocal = maxDocument
)

// readIndex decodes the index of a backend, which is done once for all clients.
func readIndex(document io.Reader, last *version) (*version, error) {
	now, err := indexWithin(document, last, maxIndex, parts.Limits{Values: 5 * maxLocations, Elements: 2 * maxLocations})
	if err == nil && len(now.index) > maxLocations {
		return nil, fmt.Errorf("the index names more than %d documents", maxLocations)
	}
	return now, err
}

// readLocal decodes the index of the aggregator itself. The indexes that it is made of have limits.
func readLocal(document io.Reader, last *version) (*version, error) {
	return indexWithin(document, last, maxLocal, parts.Limits{})
}

func indexWithin(document io.Reader, last *version, bytes int64, limits parts.Limits) (*version, error) {
	text, err := io.ReadAll(io.LimitReader(document, bytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > bytes {
		return nil, fmt.Errorf("the index is larger than %d bytes", bytes)
	}
	digest := sha256.Sum256(text)
	if last != nil && last.digest == digest {
		return last, nil
	}
	if err := limits.Check(text); err != nil {
		return nil, err
	}
	var index struct {
		Paths object `json:"paths"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, err
	}
	return &version{index: index.Paths, named: namedBy(index.Paths), digest: digest}, nil
}

// shown returns the index of the server, and what clients may find of it.
func (p *part) shown() (index object, l limits) {
	v := p.last.Load()
	if v == nil {
		return nil, l
	}
	if p.limited {
		l = newLimits(v.named, p.serves)
	}
	return v.index, l
}

// find returns the first server that has a document of a name, such as apis/apps/v1.
func (v *V3) find(name string) *part {
	for _, p := range v.parts {
		index, l := p.shown()
		if _, exists := index[name]; exists && p.shows(name, l) {
			return p
		}
	}
	return nil
}

// locations returns where the documents of all servers are. The first server that has one of a name gives it.
func (v *V3) locations() object {
	merged := object{}
	for _, p := range v.parts {
		index, l := p.shown()
		for name, location := range index {
			if _, exists := merged[name]; !exists && p.shows(name, l) {
				merged[name] = location
			}
		}
	}
	return merged
}

// ownHeaders are set by the aggregator's handlers before a document is passed on, or are for the aggregator alone.
var ownHeaders = []string{
	"Audit-Id", "Cache-Control", "Strict-Transport-Security",
	"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
	envelope.ServedHeader,
}

// proxy passes requests for the document of that name on in the aggregator's own name: it has authorized them. The hash is the one that the
// client asks for, or empty. The header is that of the answer.
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
		Transport: roundtrip.Func(p.fetch),
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

// atHash makes the answer with a document one to a request for the document with a hash, as k8s.io/kube-openapi/pkg/handler3 does: if the
// document has the hash, clients may keep it for ever, and otherwise they are redirected to its present hash. The aggregator decides that
// itself, because a client follows a redirect with its credentials, so no server may send it one.
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
	_ = resp.Body.Close() // the document is not read
	resp.Body, resp.ContentLength, resp.StatusCode = http.NoBody, 0, http.StatusMovedPermanently
	for _, name := range []string{"Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Range", "Last-Modified"} {
		resp.Header.Del(name) // these are about the document
	}
	resp.Header.Set("Location", location.String())
}
