// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// side is one of the two that are compared.
type side struct {
	file, socket string
	*both.Side
	etcd *clientv3.Client
}

func (s *side) start(t *testing.T, env *framework.Environment, tripod bool) {
	t.Helper()
	server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: []string{
		"--encryption-provider-config=" + s.file, "--encryption-provider-config-automatic-reload",
	}})
	require.NoError(t, err)
	s.Side = both.NewSide(server.Cluster, map[string]both.User{"": both.Admin})
	s.etcd = framework.Etcd(t, server.EtcdURL)
	require.NoError(t, s.Create(t.Context(), definitions))
}

// send sends a request and returns the answer.
func (s *side) send(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	answer, err := s.Send(ctx, both.Request{Method: method, Path: path, Header: http.Header{"Content-Type": {"application/json"}}, Body: body})
	return answer.Code, answer.Body, err
}

// get returns the answer to a GET, 0 if there was none.
func (s *side) get(ctx context.Context, path string) (int, []byte) {
	code, body, err := s.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return code, body
}

func (s *side) create(ctx context.Context, k kind, name string) error {
	manifest, err := object(k, name)
	if err != nil {
		return err
	}
	body, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	code, answer, err := s.send(ctx, http.MethodPost, k.path, body)
	if err != nil {
		return err
	}
	if code != http.StatusCreated {
		return fmt.Errorf("POST %s: %d %s", k.path, code, answer)
	}
	return nil
}

// rewrite updates an object with what it is.
func (s *side) rewrite(ctx context.Context, k kind, name string) error {
	path := k.path + "/" + k.prefix + name
	code, body := s.get(ctx, path)
	if code != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, code, body)
	}
	code, answer, err := s.send(ctx, http.MethodPut, path, body)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("PUT %s: %d %s", path, code, answer)
	}
	return nil
}

// readable demands that the API shows an object plainly, alone and among others.
func (s *side) readable(t *testing.T, k kind, name string) {
	t.Helper()
	for _, path := range []string{k.path + "/" + k.prefix + name, k.path} {
		code, body := s.get(t.Context(), path)
		if code != http.StatusOK || !bytes.Contains(body, []byte(k.prefix+name)) || !bytes.Contains(body, []byte(`"said":"`)) {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
}

// stored returns the value of an object in etcd.
func (s *side) stored(ctx context.Context, k kind, name string) ([]byte, error) {
	key := strings.ReplaceAll(k.key, "NAME", name)
	values, err := framework.Stored(ctx, s.etcd, key)
	if err == nil && values[key] == nil {
		err = fmt.Errorf("etcd has no %s", key)
	}
	return values[key], err
}

// healthIs waits until the check of the KMS plugin has this result, in all its forms.
func (s *side) healthIs(t *testing.T, healthy bool) {
	t.Helper()
	for _, path := range []string{healthOfKMS, "/healthz/kms-providers", "/readyz", "/healthz"} {
		want, line := http.StatusOK, "ok"
		if !healthy {
			want, line = http.StatusInternalServerError, "kms-provider"
		}
		framework.Eventually(t, fmt.Sprintf("%s is %d", path, want), func(ctx context.Context) error {
			code, body := s.get(ctx, path)
			if code != want || !bytes.Contains(body, []byte(line)) {
				return fmt.Errorf("%d %s", code, body)
			}
			return nil
		})
	}
}
