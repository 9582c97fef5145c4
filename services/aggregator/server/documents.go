// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/tripod-k8s/tripod/base/hop/parts"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/openapi"
)

const (
	// maxDocument bounds a document of discovery or OpenAPI of an aggregated API server. That of kube-apiserver has 4 MB.
	maxDocument = 16 << 20
	// documentValues and documentElements bound its parts.
	documentValues, documentElements = 500_000, 200_000
	// schemaElements bound those of its OpenAPI v2, of which each becomes a schema of 600 bytes, several times. kube-apiserver has 32,000.
	schemaElements = 60_000
	// indexValues bound the index of its OpenAPI v3, of which each request for the index of all reads each name. 60 group-versions have 200.
	indexValues = 4000
	// maxError bounds what is kept of an answer that is no document. Errors of kube-aggregator quote it.
	maxError = 1 << 10
)

// documentsOf bounds the documents that kube-aggregator decodes of an aggregated API server, and leaves out what is about others than its
// APIService: kube-aggregator would decode anything, and show all of it.
func documentsOf(server http.Handler, name string) http.Handler {
	gv := helper.APIServiceNameToGroupVersion(name)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d := &document{header: http.Header{}, code: http.StatusOK}
		// Only documents of OpenAPI v3 are for clients, and not decoded here. What the server says of its answer decides nothing.
		switch {
		case req.URL.Path == "/openapi/v3":
			d.counter = parts.Limits{Values: indexValues}.Counter()
		case req.URL.Path == "/openapi/v2":
			d.counter = parts.Limits{Values: documentValues, Elements: schemaElements}.Counter()
		case !strings.HasPrefix(req.URL.Path, "/openapi/v3/"):
			d.counter = parts.Limits{Values: documentValues, Elements: documentElements}.Counter()
		}
		server.ServeHTTP(d, req)
		text := d.body.Bytes()
		if d.err == nil && d.code == http.StatusOK {
			text, d.err = ofGroupVersion(req.URL.Path, text, gv)
		}
		if d.err != nil {
			klog.InfoS("A document of an aggregated API server is not used", "APIService", name, "path", req.URL.Path, "err", d.err)
			http.Error(w, "the document is not used: "+d.err.Error(), http.StatusBadGateway)
			return
		}
		for key, values := range d.header {
			if key != "Content-Length" {
				w.Header()[key] = values
			}
		}
		w.WriteHeader(d.code)
		w.Write(text) //nolint:errcheck // the caller is gone
	})
}

// ofGroupVersion returns of a document of OpenAPI what is about a group-version.
func ofGroupVersion(path string, text []byte, gv schema.GroupVersion) ([]byte, error) {
	switch path {
	case "/openapi/v2":
		return openapi.OfGroupVersion(text, gv)
	case "/openapi/v3":
		return openapi.IndexOfGroupVersion(text, gv)
	}
	return text, nil
}

// document is an answer that is kept until it is known to be JSON that does not have too much.
type document struct {
	header http.Header
	code   int
	begun  bool
	body   bytes.Buffer
	// counter is nil if the parts do not count.
	counter io.Writer
	// err is why the document is not used.
	err error
}

var errDocumentSize = errors.New("more than 16 MiB")

// Header implements http.ResponseWriter.
func (d *document) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *document) WriteHeader(code int) {
	if !d.begun && code >= http.StatusOK {
		d.code, d.begun = code, true
	}
}

// Write implements http.ResponseWriter. It fails for a document that has too much or is no JSON, so that no more of it is read.
func (d *document) Write(text []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	if d.code != http.StatusOK {
		d.body.Write(text[:min(len(text), maxError-d.body.Len())])
		return len(text), nil
	}
	if d.err == nil && d.body.Len()+len(text) > maxDocument {
		d.err = errDocumentSize
	}
	if d.err == nil && d.counter != nil {
		_, d.err = d.counter.Write(text)
	}
	if d.err != nil {
		d.body = bytes.Buffer{}
		return 0, d.err
	}
	return d.body.Write(text)
}
