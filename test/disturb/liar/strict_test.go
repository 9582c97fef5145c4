// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package liar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// startStrict starts an aggregated API server that speaks only HTTP/2. It announces how large headers may be, and it closes a connection on which a request
// with the query "evil" arrives.
func startStrict(t *testing.T, address, group string) string {
	t.Helper()
	type connKey struct{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Query().Has("evil"):
			conn, _ := req.Context().Value(connKey{}).(net.Conn)
			_ = conn.Close() // that is the fault
		case req.Method == http.MethodPost:
			time.Sleep(50 * time.Millisecond) // others share the connection meanwhile
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{ // the client checks the answer
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/v1",
			APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Verbs: metav1.Verbs{"list", "create"}}},
		})
	}))
	require.NoError(t, server.Listener.Close())
	var err error
	server.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	server.EnableHTTP2 = true
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.MaxHeaderBytes = 64 << 10
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// forEverybody lets anonymous users ask the server.
const forEverybody = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules: [{apiGroups: [strict.example.com], resources: [things], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:anonymous"}]
`

// send sends a request, and returns the status of the answer and its body.
func send(client *http.Client, method, url string, header http.Header) (int, string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader("{}"))
	if err != nil {
		return 0, "", err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// TestRequestsThatAnAggregatedServerDislikes sends some that the server does not take, or for which it closes the connection, and sees what comes of the
// requests of others.
func TestRequestsThatAnAggregatedServerDislikes(t *testing.T) {
	const group = "strict.example.com"
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	register(t, namespace, group, startStrict(t, framework.HostAddress(t), group))
	defer unregister(t, group)
	require.NoError(t, fleet.Cluster.Create(t.Context(), strings.ReplaceAll(forEverybody, "NAME", namespace)))
	config := fleet.Admin()
	config.Timeout = time.Minute // it only ends a test that would never end
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	unknown := rest.AnonymousClientConfig(config)
	unknown.Timeout = time.Minute
	anonymous, err := rest.HTTPClientFor(unknown)
	require.NoError(t, err)
	url := fleet.URL + "/apis/" + group + "/v1/things"
	framework.Eventually(t, "the API is available", func(context.Context) error {
		status, body, err := send(client, http.MethodGet, url, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})

	var over atomic.Bool
	var others errgroup.Group
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		others.Go(func() error {
			for !over.Load() {
				if status, body, err := send(client, method, url, nil); err != nil || status != http.StatusOK {
					return fmt.Errorf("%s: %d %s %w", method, status, body, err)
				}
			}
			return nil
		})
	}
	large := strings.Repeat("a", 200<<10)
	for range 10 {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			status, body, err := send(client, method, url, http.Header{"X-Large": {large}})
			assert.NoError(t, err)
			assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status, body)
			_, _, err = send(client, method, url+"?evil="+large, nil)
			assert.NoError(t, err)
			status, body, err = send(anonymous, method, url, nil)
			assert.NoError(t, err)
			assert.Equal(t, http.StatusOK, status, body)
		}
	}
	over.Store(true)
	assert.NoError(t, others.Wait(), "requests of others")
}
