// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProxyForNodesIsNoneForEtcd(t *testing.T) {
	const socket = "proxyProtocol: GRPC, transport: {uds: {udsName: /run/konnectivity.sock}}"
	for selections, want := range map[string]bool{
		"{name: cluster, connection: {" + socket + "}}":                                                    false,
		"{name: cluster, connection: {" + socket + "}}, {name: etcd, connection: {proxyProtocol: Direct}}": false,
		"{name: cluster, connection: {" + socket + "}}, {name: etcd, connection: {" + socket + "}}":        true,
		"not a selection": true,
	} {
		path := filepath.Join(t.TempDir(), "egress.yaml")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [%s]\n", selections), 0o600))
		assert.Equal(t, want, hasProxyForEtcd(path), selections)
	}
	assert.True(t, hasProxyForEtcd("/does/not/exist"))
}
