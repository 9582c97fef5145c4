// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// maxHealth is more than an aggregator says in answer to a check of health.
const maxHealth = 64 << 10

// HealthOf returns a function for [Check.Health] that sends requests to an API server.
func HealthOf(config *rest.Config) (func(ctx context.Context, path string) (int, string, error), error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, path string) (int, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath(path).String(), nil)
		if err != nil {
			return 0, "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close() //nolint:errcheck // it is only read
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
		return resp.StatusCode, string(body), err
	}, nil
}
