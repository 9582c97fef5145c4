// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"context"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler"
)

const pathV2 = "/openapi/v2"

const (
	mediaJSON = "application/json"
	// mediaProtobuf is the type of the protobuf form, and mediaProtobufOld the one by which older
	// clients, kubectl among them, ask for it.
	mediaProtobuf    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaProtobufOld = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// V2 serves /openapi/v2.
type V2 struct {
	json, protobuf document
}

// document is /openapi/v2 in one media type.
type document struct {
	// merge merges documents of backends. Each may be nil, except the first, and so may the local one.
	merge func(backends [][]byte, local []byte) ([]byte, error)
	form  form
	// If several servers have an entry of the same name, the document has that of the first backend.
	backends []*part
	local    *part
	// also is what merge needs besides.
	also []*part

	// mu is held while parts are merged, but not while servers are asked.
	mu           sync.Mutex
	etag         string
	compressed   []byte
	lastModified time.Time
}

// NewV2 merges the documents of the backends with that of local, a handler of /openapi/v2
// for the aggregator's own group and for aggregated API servers. Nothing is served without the document of the first backend.
func NewV2[B Backend](backends []B, local http.Handler) *V2 {
	v2 := &V2{}
	v2.json.backends = partsOf(backends, pathV2, mediaJSON, readJSON)
	v2.protobuf.backends = partsOf(backends, pathV2, mediaProtobufOld, readProtobuf)
	for _, document := range []*document{&v2.json, &v2.protobuf} {
		// The local part is small, and always JSON: entries of it may have to be renamed.
		document.local = handlerPart("aggregator", pathV2, local, readJSON)
	}
	v2.json.merge, v2.json.form, v2.protobuf.form = mergeJSON, formJSON, formProtobuf
	v2.protobuf.merge, v2.protobuf.also = v2.mergeProtobuf, v2.json.backends[:1]
	return v2
}

// ServeHTTP answers in the media type that the client prefers, compressed if it accepts that.
func (v *V2) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	doc, contentType := v.negotiate(req.Header.Get("Accept"))
	if doc == nil {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	doc.serve(w, req, contentType)
}

func (v *V2) negotiate(accept string) (*document, string) {
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, offer := range []struct {
			media, contentType string
			document           *document
		}{
			{mediaJSON, mediaJSON, &v.json},
			{mediaProtobufOld, mediaProtobuf, &v.protobuf},
			{mediaProtobuf, mediaProtobuf, &v.protobuf},
		} {
			kind, subtype, _ := strings.Cut(offer.media, "/")
			if (clause.Type == kind || clause.Type == "*") && (clause.SubType == subtype || clause.SubType == "*") {
				return offer.document, offer.contentType
			}
		}
	}
	return nil, ""
}

func (d *document) serve(w http.ResponseWriter, req *http.Request, contentType string) {
	compressed, etag, modified, err := d.current(req.Context())
	if err != nil {
		klog.ErrorS(err, "OpenAPI v2 document could not be merged")
	}
	if compressed == nil {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Etag", strconv.Quote(etag))
	var body io.ReadSeeker = newInflated(compressed)
	if strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = bytes.NewReader(compressed)
	}
	http.ServeContent(w, req, pathV2, modified, body)
}

// current returns the merged document, made anew if one of its parts changed.
func (d *document) current(ctx context.Context) (compressed []byte, etag string, modified time.Time, err error) {
	parts := append(slices.Clone(d.backends), d.local)
	refresh(ctx, slices.Concat(d.also, parts)...)
	d.mu.Lock()
	defer d.mu.Unlock()
	versions, etags, shown := make([]*version, len(parts)), make([]string, len(parts)), make([]limits, len(parts))
	for i, part := range parts {
		if versions[i] = part.last.Load(); versions[i] == nil {
			continue
		}
		etags[i] = versions[i].etag
		if part.limited {
			shown[i] = newLimits(d.named(versions[i]), part.serves)
			etags[i] += shown[i].String()
		}
	}
	if versions[0] == nil {
		return nil, "", time.Time{}, fmt.Errorf("%s has sent no document yet", parts[0].name)
	}
	now := fmt.Sprintf("%X", sha512.Sum512([]byte(strings.Join(etags, " "))))
	if now != d.etag {
		if err := d.remake(versions, shown); err != nil {
			return d.compressed, d.etag, d.lastModified, err
		}
		d.etag, d.lastModified = now, time.Now()
	}
	return d.compressed, d.etag, d.lastModified, nil
}

// named returns the group-versions that the document of a limited server is about. The caller holds the mutex.
func (d *document) named(v *version) []schema.GroupVersion {
	v.read.Do(func() {
		document, err := v.document()
		if err == nil {
			v.named, _ = d.form.named(document) // remake reports it
		}
	})
	return v.named
}

// remake merges versions of the backends' documents, and of the local one, which is the last. Of limited ones, it takes what is to be
// shown.
func (d *document) remake(versions []*version, shown []limits) error {
	documents := make([][]byte, len(versions))
	for i, v := range versions {
		var err error
		if documents[i], err = v.document(); err != nil {
			return err
		}
	}
	local := len(documents) - 1
	for i, part := range d.backends {
		if !part.limited || documents[i] == nil {
			continue
		}
		var err error
		if documents[i], err = d.form.limit(documents[i], shown[i]); err != nil {
			klog.ErrorS(err, "Leaving the OpenAPI v2 document of a backend out", "backend", part.name)
			documents[i] = nil
		}
	}
	merged, err := d.merge(documents[:local], documents[local])
	if err != nil {
		for i := 1; i < local; i++ { // one that makes no sense does not hide the others
			if _, wrong := d.merge([][]byte{documents[0], documents[i]}, nil); wrong != nil {
				klog.ErrorS(wrong, "Leaving the OpenAPI v2 document of a backend out", "backend", d.backends[i].name)
				documents[i] = nil
			}
		}
		if _, wrong := d.merge(documents[:1], documents[local]); wrong != nil {
			klog.ErrorS(wrong, "Leaving the OpenAPI v2 documents of aggregated API servers out")
			documents[local] = nil
		}
		merged, err = d.merge(documents[:local], documents[local])
	}
	if err != nil {
		return err
	}
	compressed, err := compress(bytes.NewReader(merged), maxMerged(len(documents)))
	if err != nil {
		return err
	}
	d.compressed = compressed
	return nil
}

// mergeProtobuf merges protobuf documents with a local one in JSON.
func (v *V2) mergeProtobuf(backends [][]byte, local []byte) ([]byte, error) {
	if local == nil {
		return mergeProtobuf(backends...)
	}
	// Which local definitions differ from the first backend's of the same name shows in JSON only.
	first, err := v.json.backends[0].last.Load().document()
	if err != nil {
		return nil, err
	}
	if first != nil {
		names := map[string]map[string]bool{"definitions": {}, "parameters": {}}
		for _, backend := range backends[1:] {
			if err := addNames(names, backend); err != nil {
				return nil, err
			}
		}
		if local, err = renameConflicts(local, first, func(section, name string) bool { return names[section][name] }); err != nil {
			return nil, err
		}
	}
	localProtobuf, err := handler.ToProtoBinary(local)
	if err != nil {
		return nil, fmt.Errorf("documents of aggregated API servers: %w", err)
	}
	return mergeProtobuf(append(slices.Clone(backends), localProtobuf)...)
}
