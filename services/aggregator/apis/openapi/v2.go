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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"

	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler"
)

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
	accept string
	merge  func(core, extensions, local []byte) ([]byte, error)

	mu sync.Mutex
	// core comes first: where two servers have an entry of the same name, its is the one.
	core, extensions, local *part

	etag         string
	compressed   []byte
	lastModified time.Time
}

// NewV2 merges the documents of core and extensions with that of local, a handler of /openapi/v2
// for the aggregator's own group and for aggregated API servers.
func NewV2(core, extensions http.RoundTripper, local http.Handler) *V2 {
	newDocument := func(accept string, merge func(core, extensions, local []byte) ([]byte, error)) document {
		return document{
			accept:     accept,
			merge:      merge,
			core:       backendPart("core", core),
			extensions: backendPart("extensions", extensions),
			local:      handlerPart("aggregator", local),
		}
	}
	v2 := &V2{
		json:     newDocument(mediaJSON, mergeJSON),
		protobuf: newDocument(mediaProtobufOld, nil),
	}
	v2.protobuf.merge = v2.mergeProtobuf
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
	http.ServeContent(w, req, "/openapi/v2", modified, body)
}

// current returns the merged document, made anew if one of its parts changed.
func (d *document) current(ctx context.Context) (compressed []byte, etag string, modified time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// One client's impatience must not spoil the refresh for those that wait behind it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	d.core.refresh(ctx, "/openapi/v2", d.accept)
	d.extensions.refresh(ctx, "/openapi/v2", d.accept)
	// The local part is small, and always JSON: entries of it may have to be renamed.
	d.local.refresh(ctx, "/openapi/v2", mediaJSON)
	if d.core.compressed == nil {
		return nil, "", time.Time{}, fmt.Errorf("core was not heard yet")
	}
	now := fmt.Sprintf("%X", sha512.Sum512([]byte(d.core.etag+" "+d.extensions.etag+" "+d.local.etag)))
	if now != d.etag {
		if err := d.remake(); err != nil {
			return d.compressed, d.etag, d.lastModified, err
		}
		d.etag, d.lastModified = now, time.Now()
	}
	return d.compressed, d.etag, d.lastModified, nil
}

// refreshTimeout bounds how long clients wait for servers that do not answer.
const refreshTimeout = 30 * time.Second

func (d *document) remake() error {
	var parts [3][]byte
	for i, p := range []*part{d.core, d.extensions, d.local} {
		var err error
		if parts[i], err = p.document(); err != nil {
			return err
		}
	}
	merged, err := d.merge(parts[0], parts[1], parts[2])
	if err != nil {
		return err
	}
	compressed, err := compress(merged)
	if err != nil {
		return err
	}
	d.compressed = compressed
	return nil
}

// mergeProtobuf merges protobuf documents with a local one in JSON.
func (v *V2) mergeProtobuf(core, extensions, local []byte) ([]byte, error) {
	if local == nil {
		return mergeProtobuf(core, extensions)
	}
	// Which local definitions differ from core's of the same name shows in JSON only.
	coreJSON, err := v.json.coreDocument()
	if err != nil {
		return nil, err
	}
	if coreJSON != nil {
		if local, err = renameConflicts(local, coreJSON); err != nil {
			return nil, err
		}
	}
	localProtobuf, err := handler.ToProtoBinary(local)
	if err != nil {
		return nil, fmt.Errorf("documents of aggregated API servers: %w", err)
	}
	return mergeProtobuf(core, extensions, localProtobuf)
}

// coreDocument returns core's part alone.
func (d *document) coreDocument() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	d.core.refresh(ctx, "/openapi/v2", d.accept)
	return d.core.document()
}
