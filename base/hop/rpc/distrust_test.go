// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// bundle writes the CAs to a file.
func bundle(t *testing.T, file string, authorities ...*authority) {
	t.Helper()
	var content []byte
	for _, a := range authorities {
		ca, err := os.ReadFile(a.store.CertFile("ca"))
		require.NoError(t, err)
		content = append(content, ca...)
	}
	require.NoError(t, os.WriteFile(file, content, 0o600))
}

// Both ends are with the CA old, and one end stops to trust it.
func TestAConnectionEndsWithTheTrustInItsCA(t *testing.T) {
	for name, test := range map[string]struct{ byServer, lasts bool }{
		"the server's":               {byServer: true},
		"the client's":               {},
		"while the server trusts it": {byServer: true, lasts: true},
		"while the client trusts it": {lasts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, next := newAuthority(t), newAuthority(t)
			changing := filepath.Join(t.TempDir(), "changing.crt")
			bundle(t, changing, old)
			server, client := *old.trust(t, "core"), *old.trust(t, "aggregator")
			if test.byServer {
				server.CAFile = changing
			} else {
				client.CAFile = changing
			}
			stream := watch(t, &server, &client)
			ended := make(chan error, 1)
			go func() {
				_, err := stream.Recv()
				ended <- err
			}()
			if test.lasts {
				bundle(t, changing, old, next)
			} else {
				bundle(t, changing, next)
			}
			select {
			case err := <-ended:
				assert.False(t, test.lasts, "it ends: %v", err)
				assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
			case <-time.After(map[bool]time.Duration{true: 2 * time.Second, false: time.Minute}[test.lasts]):
				assert.True(t, test.lasts, "it goes on")
			}
		})
	}
}

// watch returns a stream that has begun and does not end by itself.
func watch(t *testing.T, server, client *trust.Options) grpc.ServerStreamingClient[identityv1.WatchResponse] {
	t.Helper()
	address, _ := serveAt(t, "127.0.0.1:0", server, &service{watch: func(s grpc.ServerStreamingServer[identityv1.WatchResponse]) error {
		if err := s.Send(&identityv1.WatchResponse{}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}})
	stream, err := identityv1.NewIdentityClient(connect(t, address, "core", client)).Watch(t.Context(), &identityv1.WatchRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}
