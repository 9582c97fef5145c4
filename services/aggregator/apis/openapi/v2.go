// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"

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
	merge func(core, extensions, local []byte) ([]byte, error)
	// If several servers have an entry of the same name, the document has that of core.
	core, extensions, local *part
	// also is what merge needs besides.
	also []*part

	// mu is held while parts are merged, but not while servers are asked.
	mu           sync.Mutex
	etag         string
	compressed   []byte
	lastModified time.Time
}

// NewV2 merges the documents of core and extensions with that of local, a handler of /openapi/v2
// for the aggregator's own group and for aggregated API servers.
func NewV2(core, extensions http.RoundTripper, local http.Handler) *V2 {
	v2 := &V2{}
	for document, accept := range map[*document]string{&v2.json: mediaJSON, &v2.protobuf: mediaProtobufOld} {
		document.core = backendPart("core", pathV2, accept, core)
		document.extensions = backendPart("extensions", pathV2, accept, extensions)
		// The local part is small, and always JSON: entries of it may have to be renamed.
		document.local = handlerPart("aggregator", pathV2, local)
	}
	v2.json.merge = mergeJSON
	v2.protobuf.merge, v2.protobuf.also = v2.mergeProtobuf, []*part{v2.json.core}
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
	refresh(ctx, slices.Concat(d.also, []*part{d.core, d.extensions, d.local})...)
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := [3]*version{d.core.last.Load(), d.extensions.last.Load(), d.local.last.Load()}
	if parts[0] == nil {
		return nil, "", time.Time{}, errors.New("core has sent no document yet")
	}
	var etags [3]string
	for i, part := range parts {
		if part != nil {
			etags[i] = part.etag
		}
	}
	now := fmt.Sprintf("%X", sha512.Sum512([]byte(strings.Join(etags[:], " "))))
	if now != d.etag {
		if err := d.remake(parts); err != nil {
			return d.compressed, d.etag, d.lastModified, err
		}
		d.etag, d.lastModified = now, time.Now()
	}
	return d.compressed, d.etag, d.lastModified, nil
}

func (d *document) remake(parts [3]*version) error {
	var documents [3][]byte
	for i, part := range parts {
		var err error
		if documents[i], err = part.document(); err != nil {
			return err
		}
	}
	merged, err := d.merge(documents[0], documents[1], documents[2])
	if err != nil {
		return err
	}
	compressed, err := compress(bytes.NewReader(merged))
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
	coreJSON, err := v.json.core.last.Load().document()
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
