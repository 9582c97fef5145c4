// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embeddedtest runs an etcd inside a test.
package embeddedtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Start starts an etcd on a free port, with TLS if the options have a certificate. It returns the URL, where etcd may not
// serve yet: clients of etcd wait for it. The function that it returns stops etcd; the end of the test stops it too.
func Start(t testing.TB, o embedded.Options) (url string, stop func()) {
	t.Helper()
	port, err := replicas.ReservePort()
	require.NoError(t, err)
	port.Release()
	o.ClientURL, o.LogLevel = port.URL(), "error"
	if o.CertFile == "" {
		o.ClientURL = strings.Replace(o.ClientURL, "https", "http", 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- embedded.Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return o.ClientURL, stop
}
