// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

func TestAdvertisePort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	own := listener.Addr().(*net.TCPAddr).Port

	for name, test := range map[string]struct{ port, want int }{
		"the aggregator's port":        {port: 6443, want: 6443},
		"its own port without another": {port: 0, want: own},
	} {
		t.Run(name, func(t *testing.T) {
			serving := &genericapiserver.SecureServingInfo{Listener: listener}
			restore := advertisePort(serving, test.port)
			if _, got, err := serving.HostPort(); err != nil || got != test.want {
				t.Errorf("port %d, %v; want %d", got, err, test.want)
			}
			restore()
			if serving.Listener != listener {
				t.Error("the listener is not restored")
			}
		})
	}
}
