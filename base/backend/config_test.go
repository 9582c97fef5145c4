// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/tripod-k8s/tripod/base/service"
)

// TestAConfigurationThatFailsLeavesNoGoroutine has a certificate that is missing.
func TestAConfigurationThatFailsLeavesNoGoroutine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	serving := genericoptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.ServerCert.CertKey = genericoptions.CertKey{CertFile: filepath.Join(t.TempDir(), "none"), KeyFile: "none"}
	o := NewOptions("example", service.NewGenericOptions(nil, serving))
	_, err = NewConfig(t.Context(), &o, Neighbours{}, Settings{})
	require.ErrorIs(t, err, os.ErrNotExist)
	stacks := make([]byte, 1<<20)
	assert.NotContains(t, string(stacks[:runtime.Stack(stacks, true)]), "backend.(*links)")
}
