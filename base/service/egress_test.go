// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyAProxyToEtcdHidesEtcd(t *testing.T) {
	const proxied = "{proxyProtocol: GRPC, transport: {uds: {udsName: /run/proxy.sock}}}"
	for selections, want := range map[string]bool{
		"[]": false,
		"[{name: cluster, connection: " + proxied + "}]":                                                    false,
		"[{name: etcd, connection: {proxyProtocol: Direct}}]":                                               false,
		"[{name: etcd, connection: " + proxied + "}]":                                                       true,
		"[{name: Etcd, connection: " + proxied + "}]":                                                       true,
		"[{name: cluster, connection: " + proxied + "}, {name: etcd, connection: {proxyProtocol: Direct}}]": false,
		"[{name: cluster, connection: " + proxied + "}, {name: etcd, connection: " + proxied + "}]":         true,
	} {
		file := filepath.Join(t.TempDir(), "egress.yaml")
		content := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: " + selections
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		behind, err := EtcdBehindProxy(file)
		require.NoError(t, err, selections)
		assert.Equal(t, want, behind, selections)
	}
	behind, err := EtcdBehindProxy("")
	require.NoError(t, err)
	assert.False(t, behind)
	_, err = EtcdBehindProxy("/nowhere.yaml")
	assert.ErrorContains(t, err, "--egress-selector-config-file")
}
