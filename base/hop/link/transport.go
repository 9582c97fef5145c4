// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

const (
	// dialTimeout is how long connecting to a replica may take. Then the next one is tried.
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second

	// The values of client-go: after idleBeforePing without traffic, the transport sends a ping. Without an answer it closes the connection.
	idleBeforePing = 30 * time.Second
	pingTimeout    = 15 * time.Second

	idleTimeout = 90 * time.Second
)

// newTransport returns a transport to servers with this name in their certificate. It reads certificate files for each new connection.
// client-go's transport looks for a new CA only every five minutes, and would reject servers with certificates of that CA until then.
func newTransport(own trust.Options, serverName string, peers *trust.Peers) *http.Transport {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := own.ClientConfig(serverName)
		if err != nil {
			return nil, err
		}
		config.NextProtos = []string{http2.NextProtoTLS, "http/1.1"}
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		var secured *tls.Conn
		if err := peers.Handshake(conn, func(conn net.Conn) ([]*x509.Certificate, error) {
			secured = tls.Client(conn, config)
			err := secured.HandshakeContext(ctx)
			return secured.ConnectionState().PeerCertificates, err
		}); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secured, nil
	}
	transport := &http.Transport{DialTLSContext: dial, DisableCompression: true, IdleConnTimeout: idleTimeout}
	multiplexed, err := http2.ConfigureTransports(transport)
	if err != nil {
		panic(err) // fails only for a transport that has HTTP/2 already
	}
	multiplexed.ReadIdleTimeout, multiplexed.PingTimeout, multiplexed.WriteByteTimeout = idleBeforePing, pingTimeout, pingTimeout
	return transport
}
