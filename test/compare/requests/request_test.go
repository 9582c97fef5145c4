// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// Media types of requests and answers.
const (
	jsonType           = "application/json"
	protobufType       = "application/vnd.kubernetes.protobuf"
	cborType           = "application/cbor"
	jsonPatch          = "application/json-patch+json"
	mergePatch         = "application/merge-patch+json"
	strategicPatch     = "application/strategic-merge-patch+json"
	applyPatch         = "application/apply-patch+yaml"
	tableType          = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metadataListType   = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	metadataType       = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	discoveryV2        = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	discoveryV2Beta1   = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	discoveryProtobuf  = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	openAPIV2Protobuf  = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	openAPIV3Protobuf  = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	defaultContentType = jsonType
)

// requestTimeout ends a watch whose events never come.
const requestTimeout = 20 * time.Second

// request is one request that both clusters get. Its methods return a changed copy.
type request struct {
	name        string
	user        string
	method      string
	path        string
	headers     http.Header
	content     []byte
	events      int
	withoutBody bool
	fails       bool
}

func newRequest(method, path string) request {
	return request{method: method, path: path, user: admin, headers: http.Header{}}
}

func get(path string) request            { return newRequest(http.MethodGet, path) }
func del(path string) request            { return newRequest(http.MethodDelete, path) }
func post(path, body string) request     { return newRequest(http.MethodPost, path).body(jsonType, body) }
func put(path, body string) request      { return newRequest(http.MethodPut, path).body(jsonType, body) }
func send(method, path string) request   { return newRequest(method, path) }
func patch(kind, path, b string) request { return newRequest(http.MethodPatch, path).body(kind, b) }

// apply is a server-side apply of a manifest by a field manager.
func apply(manager, path, manifest string) request {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return patch(applyPatch, path+separator+"fieldManager="+manager, manifest)
}

// called names a request that its method and path do not explain.
func (r request) called(name string) request {
	r.name = name
	return r
}

func (r request) as(user string) request {
	r.user = user
	return r
}

func (r request) header(name, value string) request {
	r.headers = r.headers.Clone()
	r.headers.Add(name, value)
	return r
}

func (r request) accept(mediaType string) request { return r.header("Accept", mediaType) }

// body sets the content. A manifest for a JSON request may be written as YAML.
func (r request) body(contentType, content string) request {
	r.content = []byte(content)
	if contentType == jsonType && !strings.HasPrefix(strings.TrimSpace(content), "{") {
		if converted, err := yaml.YAMLToJSON(r.content); err == nil {
			r.content = converted
		}
	}
	r.headers = r.headers.Clone()
	r.headers.Set("Content-Type", contentType)
	return r
}

// firstEvents makes it a watch of which the first n events are compared.
func (r request) firstEvents(n int) request {
	r.events = n
	return r
}

// ignoringBody compares status and headers only.
func (r request) ignoringBody() request {
	r.withoutBody = true
	return r
}

// failing is set if even stock refuses it, where other requests are meant to succeed.
func (r request) failing() request {
	r.fails = true
	return r
}

// String identifies the request in accepted.yaml.
func (r request) String() string {
	if r.name != "" {
		return r.name
	}
	text := r.method + " " + r.path
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		if name != "Content-Type" || r.headers.Get(name) != jsonType {
			text += " " + name + "=" + strings.Join(r.headers[name], ",")
		}
	}
	if r.user != admin {
		text += " as " + r.user
	}
	return text
}

// answer is what a cluster answered to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	// events are the first events of a watch.
	events [][]byte
}

// do sends the request to one of the clusters.
func (r request) do(ctx context.Context, side *side) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	header := r.headers.Clone()
	if header.Get("Accept-Encoding") == "" {
		header.Set("Accept-Encoding", "identity")
	}
	response, err := side.Open(ctx, both.Request{User: r.user, Method: r.method, Path: r.path, Header: header, Body: r.content})
	if isBroken(err) {
		return &answer{body: []byte("no answer, the connection broke")}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	defer response.Body.Close()
	a := &answer{status: response.StatusCode, header: response.Header}
	if r.events > 0 && response.StatusCode == http.StatusOK {
		a.events, err = readEvents(response.Body, r.events)
	} else {
		a.body, err = readAll(response)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reading the answer: %w after %d events: %s", r, err, len(a.events), a.events)
	}
	return a, nil
}

// readAll returns the body, which may be compressed.
func readAll(response *http.Response) ([]byte, error) {
	if response.Header.Get("Content-Encoding") != "gzip" || response.Request.Method == http.MethodHead {
		return io.ReadAll(response.Body)
	}
	uncompressed, err := gzip.NewReader(response.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(uncompressed)
}

// isBroken reports whether a server gave a request up without an answer, which is how a panic of it looks.
func isBroken(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
