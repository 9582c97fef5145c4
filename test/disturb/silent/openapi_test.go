// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

func TestOpenAPIWhileExtensionsIsSilent(t *testing.T) {
	client := traffic.NewClient(t, fleet.Admin(), 4)
	get := func(ctx context.Context, path string) (string, error) {
		answer, err := client.Send(ctx, http.MethodGet, path, nil)
		if err == nil {
			err = answer.Expect(http.StatusOK)
		}
		return string(answer.Body), err
	}
	paths := map[string]string{"/openapi/v3": `"apis/example.com/v1"`, "/openapi/v2": `"/apis/example.com/v1/boats"`}
	for path, want := range paths {
		framework.Eventually(t, path+" has custom resources", func(ctx context.Context) error {
			body, err := get(ctx, path)
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("no %s", want)
			}
			return err
		})
	}
	resume := pause(t, "extensions-0")
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	var clients sync.WaitGroup
	for range 20 {
		for path, want := range paths {
			clients.Go(func() {
				if body, err := get(ctx, path); err != nil || !strings.Contains(body, want) {
					t.Errorf("%s: error %v, %d bytes", path, err, len(body))
				}
			})
		}
	}
	clients.Wait()
	resume()
	require.NoError(t, fleet.Create(t.Context(), framework.CRD{Kind: "Raft"}.String()))
	framework.Eventually(t, "the index has the document of extensions again", func(ctx context.Context) error {
		body, err := get(ctx, "/openapi/v2")
		if err == nil && !strings.Contains(body, `"/apis/example.com/v1/rafts"`) {
			err = fmt.Errorf("no rafts")
		}
		return err
	})
}
