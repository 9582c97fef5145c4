// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// response is an answer of which a test wants to see more than clients of Kubernetes show.
type response struct {
	Code   int
	Header http.Header
	Body   []byte
}

// send sends a request as the user of config. Header names go out as they are written here.
func send(ctx context.Context, config *rest.Config, method, path string, header map[string][]string, body []byte) (response, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return response{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, config.Host+path, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer closing(resp.Body)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return response{resp.StatusCode, resp.Header, nil}, nil
	}
	data, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, data}, err
}

// request is send for a request that gets an answer.
func request(t testing.TB, config *rest.Config, method, path string, header map[string][]string, body []byte) response {
	t.Helper()
	resp, err := send(t.Context(), config, method, path, header, body)
	require.NoError(t, err)
	return resp
}

func get(t testing.TB, config *rest.Config, path string, accept ...string) response {
	t.Helper()
	var header map[string][]string
	if len(accept) > 0 {
		header = map[string][]string{"Accept": accept}
	}
	return request(t, config, http.MethodGet, path, header, nil)
}

// status decodes the Status that every failure of the API comes with.
func (r response) status(t testing.TB) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(r.Body, &status); err != nil || status.Kind != "Status" || status.APIVersion != "v1" {
		t.Fatalf("%d is not a Status: %v: %s", r.Code, err, r.Body)
	}
	if int(status.Code) != r.Code {
		t.Errorf("HTTP status %d with a Status of code %d", r.Code, status.Code)
	}
	return status
}

// decode decodes an answer with the code that a test expects.
func decode[T any](t testing.TB, r response, code int) T {
	t.Helper()
	var value T
	require.Equal(t, code, r.Code, "got %d, want %d: %s", r.Code, code, r.Body)
	if err := json.Unmarshal(r.Body, &value); err != nil {
		t.Fatalf("%v in %s", err, r.Body)
	}
	return value
}
