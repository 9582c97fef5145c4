// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const valid = `
namespace: tripod
labels: {a: b}
duration: 8760h
authorities:
- {secret: ca, commonName: ca}
certificates:
- {secret: admin, authority: ca, commonName: admin, organizations: [system:masters], ipAddresses: ["127.0.0.1"], usages: [client]}
serviceAccountKey: {secret: sa}
kubeconfig: {secret: kubeconfig, server: https://tripod, client: admin}
`

func load(t *testing.T, content string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return Load(path)
}

func TestConfigIsRead(t *testing.T) {
	c, err := load(t, valid)
	require.NoError(t, err)
	if c.Duration.Hours() != 8760 || c.Kubeconfig.Key != "kubeconfig" || c.Kubeconfig.Name != "tripod" || len(c.Certificates) != 1 {
		t.Errorf("configuration is %+v", c)
	}
}

func TestMistakesInTheConfigAreReported(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"typo", "labels:", "lables:", "lables"},
		{"no namespace", "namespace: tripod", "", "namespace is missing"},
		{"unknown authority", "authority: ca, commonName: admin", "authority: typo, commonName: admin", `no authority "typo"`},
		{"twice", "{secret: sa}", "{secret: admin}", "admin is there twice"},
		{"no usage", "usages: [client]", "usages: []", "usages are missing"},
		{"unknown usage", "usages: [client]", "usages: [clinet]", `"clinet"`},
		{"no address", `"127.0.0.1"`, `"localhost"`, `"localhost" is no IP address`},
		{"no server", "server: https://tripod, ", "", "kubeconfig: server"},
		{"never valid", "duration: 8760h", "duration: 24h", "renewBefore"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, strings.Replace(valid, tc.old, tc.new, 1))
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
