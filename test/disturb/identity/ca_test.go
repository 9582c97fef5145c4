// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// A thief has a certificate of the aggregator from a CA that is then taken away.
func TestNobodyFollowsCoreWithACertificateOfACAThatIsGone(t *testing.T) {
	t.Parallel()
	fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{{Name: "core-0"}}})

	file := filepath.Join(fleet.PKI, "service-ca.crt")
	without, err := os.ReadFile(file)
	require.NoError(t, err)
	thief, ca := thiefOf(t, file)
	require.NoError(t, atomicfile.Write(file, append(ca, without...)))

	conn, err := rpc.Dial(fleet.Replica("core-0").GRPCAddress, "core", thief, noop.NewTracerProvider())
	require.NoError(t, err)
	defer conn.Close()
	stream, err := identityv1.NewIdentityClient(conn).Watch(t.Context(), &identityv1.WatchRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err, "while the CA is there")

	require.NoError(t, atomicfile.Write(file, without))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	framework.Eventually(t, "the stream ends", func(context.Context) error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it goes on")
		}
	})
}

// thiefOf returns a certificate of the aggregator from another CA, and that CA. caFile is that of the services.
func thiefOf(t *testing.T, caFile string) (*trust.Options, []byte) {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	authority, err := store.Authority("other-ca", "other-ca")
	require.NoError(t, err)
	_, err = authority.Ensure("thief", certs.Leaf{CommonName: trust.Aggregator, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true})
	require.NoError(t, err)
	ca, err := os.ReadFile(authority.File())
	require.NoError(t, err)
	return &trust.Options{CAFile: caFile, CertFile: store.CertFile("thief"), KeyFile: store.KeyFile("thief")}, ca
}
