// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/tripod-k8s/tripod/base/hop/replicas"
)

// maxReadyzSize is how many bytes of the answer to a probe are read.
const maxReadyzSize = 64 << 10

// HTTPProbe asks a server for its readiness.
type HTTPProbe struct {
	url    string
	client *http.Client
}

// NewHTTPProbe returns a probe of the server at base, such as https://127.0.0.1:6443. It asks as Kubernetes and etcd are asked: GET
// /readyz.
func NewHTTPProbe(base string, config *tls.Config) *HTTPProbe {
	return NewProbe(base+"/readyz?verbose", config)
}

// NewProbe returns a probe of the server that answers 200 at a URL when it is ready. It uses HTTP/1.1, because an idle HTTP/2 connection
// would delay the stop of a server by the second that it gives its clients to leave.
func NewProbe(at string, config *tls.Config) *HTTPProbe {
	return &HTTPProbe{
		url:    at,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}},
	}
}

// Ready returns nil if the server says that it is ready, and otherwise what it waits for.
func (p *HTTPProbe) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(req)
	if err != nil {
		return notServing(req.URL.Path, err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing depends on it
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReadyzSize))
	if err != nil {
		return notServing(req.URL.Path, err)
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	if failed := failedChecks(string(body)); failed != "" {
		return errors.New("waits for " + failed)
	}
	return fmt.Errorf("%s answers %s", req.URL.Path, response.Status)
}

// ErrNotListening is the error of a probe of a server that does not listen.
var ErrNotListening = errors.New("does not listen yet")

// notServing shortens the error of a connection to a server that does not listen yet.
func notServing(path string, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNotListening
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	return fmt.Errorf("does not answer %s: %w", path, err)
}

// failedChecks names the failing checks of a verbose answer to /readyz.
func failedChecks(body string) string {
	var failed []string
	for _, check := range replicas.ParseChecks(body) {
		if check.Passes {
			continue
		}
		reason := strings.TrimPrefix(strings.TrimSpace(check.Outcome), "failed: ")
		if reason != "" && reason != "reason withheld" {
			check.Name += " (" + reason + ")"
		}
		failed = append(failed, check.Name)
	}
	return strings.Join(failed, ", ")
}
