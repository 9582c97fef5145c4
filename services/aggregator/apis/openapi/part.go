// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi serves one OpenAPI document over all servers.
//
// It is merged per server, not per APIService, and by raw top-level entries: no schema is decoded,
// and what is kept is compressed. With hundreds of CRDs, decoded documents are most of the memory
// of a kube-apiserver. Core's and extensions' documents are revalidated when a client asks; aggregated API
// servers' and the aggregator's own come from kube-aggregator's OpenAPI controllers.
package openapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// userAgent tells backends who reads their documents.
const userAgent = "tripod-aggregator/openapi"

// part is what one server contributes to a document. It keeps the last known good.
type part struct {
	name  string
	fetch func(*http.Request) (*http.Response, error)

	etag       string
	compressed []byte
}

// backendPart is the document of a backend.
func backendPart(name string, transport http.RoundTripper) *part {
	return &part{name: name, fetch: transport.RoundTrip}
}

// handlerPart is a document served in process.
func handlerPart(name string, handler http.Handler) *part {
	return &part{name: name, fetch: func(req *http.Request) (*http.Response, error) {
		req, err := routing.Renew(req)
		if err != nil {
			return nil, err
		}
		ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "system:aggregator"})
		w := responsewriter.NewInMemoryResponseWriter()
		handler.ServeHTTP(w, req.WithContext(ctx))
		return &http.Response{
			StatusCode: w.RespCode(),
			Status:     http.StatusText(w.RespCode()),
			Header:     w.Header(),
			Body:       io.NopCloser(bytes.NewReader(w.Data())),
		}, nil
	}}
}

// refresh revalidates the document. A server that does not answer keeps its last one.
func (p *part) refresh(ctx context.Context, path, accept string) {
	if err := p.tryRefresh(ctx, path, accept); err != nil {
		klog.V(2).InfoS("OpenAPI document could not be fetched, using the last known one", "server", p.name, "path", path, "err", err)
	}
}

func (p *part) tryRefresh(ctx context.Context, path, accept string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", userAgent)
	if p.etag != "" {
		req.Header.Set("If-None-Match", p.etag)
	}
	resp, err := p.fetch(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or not needed
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := io.Copy(w, resp.Body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	p.compressed, p.etag = compressed.Bytes(), resp.Header.Get("Etag")
	return nil
}

// document returns the last known document, or nil where there is none yet.
func (p *part) document() ([]byte, error) {
	if p.compressed == nil {
		return nil, nil
	}
	return decompress(p.compressed)
}

func decompress(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func compress(document []byte) ([]byte, error) {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(document); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return compressed.Bytes(), nil
}
