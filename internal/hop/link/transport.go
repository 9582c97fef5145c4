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

	"github.com/tripod-k8s/tripod/internal/hop/trust"
)

const (
	// dialTimeout is how long it may take to connect to a replica before the next one is tried.
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second

	// Those of client-go: a connection that is silent for so long is asked, and given up when there is no answer.
	idleBeforePing = 30 * time.Second
	pingTimeout    = 15 * time.Second

	idleTimeout = 90 * time.Second
)

// newTransport returns a transport to servers of that name. It reads certificates for each connection that it makes: client-go's
// looks for another CA every five minutes, and would not know servers that have their certificates of a new one.
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
		panic(err) // what speaks HTTP/2 already cannot be taught it again; this is new
	}
	multiplexed.ReadIdleTimeout, multiplexed.PingTimeout = idleBeforePing, pingTimeout
	return transport
}
