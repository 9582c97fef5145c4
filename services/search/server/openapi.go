// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// openAPIPath is where clients ask for OpenAPI v3, as at any API server: kubectl explain does.
const openAPIPath = "/openapi/v3"

// openAPI answers with the documents of a cluster, or of all clusters: then each is that of the cluster that was added first.
func (h *Handler) openAPI(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return notFound("only GET is possible here")
	}
	digests, err := h.readableSchemas(req.Context(), n.Cluster)
	if err != nil {
		return err
	}
	if n.document == "" {
		return h.writeJSON(w, req, jsonType, index(digests))
	}
	// Before it reads, it holds memory for a document of the largest size, 16 MiB by default, and then gives back what that did not need.
	memory, most := h.budget.hold(req.Context()), h.budget.largest/4
	defer memory.release()
	if err := memory.charge(most); err != nil {
		return err
	}
	compressed, err := h.store.Schema(req.Context(), digests[n.document])
	if errors.Is(err, streams.ErrNoDocument) {
		return notFound("no cluster has OpenAPI for " + n.document)
	}
	if err == nil {
		err = memory.charge(int64(len(compressed)) - most)
	}
	if err != nil {
		return asStatus(req.Context(), err)
	}
	header := w.Header()
	header.Set("Content-Type", jsonType)
	header.Set("Etag", strconv.Quote(digests[n.document]))
	header.Set("Vary", "Accept-Encoding")
	var document io.Reader = bytes.NewReader(compressed)
	if acceptsGzip(req) {
		header.Set("Content-Encoding", "gzip")
	} else if document, err = gzip.NewReader(document); err != nil {
		return asStatus(req.Context(), err)
	}
	inTime(w, h.writeTimeout, func() error { return writeAll(w, document) }) //nolint:errcheck // the client is gone
	return nil
}

// openAPIIndex names the documents, as k8s.io/kube-openapi does.
type openAPIIndex struct {
	Paths map[string]openAPIDocument `json:"paths"`
}

type openAPIDocument struct {
	ServerRelativeURL string `json:"serverRelativeURL"`
}

// index returns the names of documents. Clients add the prefix of the cluster to URLs that begin with /openapi/v3.
func index(digests map[string]string) openAPIIndex {
	all := openAPIIndex{map[string]openAPIDocument{}}
	for path, digest := range digests {
		all.Paths[path] = openAPIDocument{openAPIPath + "/" + path + "?hash=" + digest}
	}
	return all
}

func acceptsGzip(req *http.Request) bool {
	for encoding := range strings.SplitSeq(req.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(encoding, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return err != nil || q > 0
	}
	return false
}
