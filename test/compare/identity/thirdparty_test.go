// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// mirrors are API servers of third parties that answer with the headers that they got.
const mirrors = `
apiVersion: v1
kind: Service
metadata: {name: mirror, namespace: test}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.mirror.example.com}
spec:
  group: mirror.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: test, name: mirror, port: %s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mirror}
rules: [{apiGroups: [mirror.example.com], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mirror}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirror}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:authenticated}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:unauthenticated}
`

const mirrorPath = "/apis/mirror.example.com/v1/things"

// Servers of third parties get the user in the headers of kube-apiserver, and no such header from the client.
func TestServersOfThirdPartiesReceiveTheUserAsFromKubeAPIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeJSON(w, r.Header) }))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	for _, s := range []*side{stock, tested} {
		require.NoError(t, s.cluster.Create(t.Context(), fmt.Sprintf(mirrors, address.Port())))
		require.NoError(t, s.poll(t.Context(), "the mirror is there", func(ctx context.Context) error {
			a, err := send(ctx, s.cluster.Anonymous(), http.MethodGet, mirrorPath, nil, "")
			if err == nil && a.Code != http.StatusOK {
				err = fmt.Errorf("it answers %v", a)
			}
			return err
		}))
	}
	users := map[string]func(s *side) (*rest.Config, error){
		"nobody":        func(s *side) (*rest.Config, error) { return s.cluster.Anonymous(), nil },
		"a certificate": func(s *side) (*rest.Config, error) { return s.cluster.UserConfig("mallory", "clowns") },
	}
	for _, token := range tokens {
		if token.good && !strings.Contains(token.name, "of a secret") {
			users["a token, "+token.name] = func(s *side) (*rest.Config, error) {
				value, err := token.make(t.Context(), s)
				return withToken(s.cluster, value), err
			}
		}
	}
	for who, config := range users {
		t.Run(who, func(t *testing.T) {
			same(t, "what the server receives", func(_ context.Context, s *side) (string, error) {
				config, err := config(s)
				if err != nil {
					return "", err
				}
				return received(roundTrip(t, config, http.MethodGet, mirrorPath, nil, "")), nil
			})
		})
	}
	if both.AgainstStock {
		return // it does not know all the headers
	}
	for name, lines := range claims(t) {
		t.Run(name, func(t *testing.T) {
			mallory, err := tested.cluster.UserConfig("mallory", "clowns")
			require.NoError(t, err)
			want, got := received(roundTrip(t, mallory, http.MethodGet, mirrorPath, nil, "")), received(roundTrip(t, mallory, http.MethodGet, mirrorPath, lines, ""))
			assert.Equal(t, got, want, "with %q: %s, without: %s", lines, got, want)
		})
	}
}

// received returns what a mirror received about the user.
func received(a answer) string {
	var header http.Header
	if err := json.Unmarshal(a.Body, &header); err != nil {
		return a.String()
	}
	var lines []string
	for name, values := range header {
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		slices.Sort(values) // those of keys that differ in case come in any order
		if strings.HasPrefix(plain, "x-remote") || strings.HasPrefix(plain, "tripod-envelope") || strings.HasPrefix(plain, "impersonate") || plain == "authorization" {
			lines = append(lines, fmt.Sprintf("%s: %q", name, values))
		}
	}
	slices.Sort(lines)
	return normal(strings.Join(lines, "\n"))
}
