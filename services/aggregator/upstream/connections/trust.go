// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
)

// Files are the files of a TLS client.
type Files struct {
	// CA has the CA certificates that sign the certificates of servers.
	CA string
	// Cert and Key are the client's own certificate and key.
	Cert, Key string
}

// Trust has the TLS configuration for connections to the servers of one service. When the configuration changes, older connections take no
// new requests.
type Trust struct {
	current atomic.Pointer[material]

	// The fields below are for a trust from files. They are unused in a fixed one.

	serverName string
	files      Files
	watch      *filewatch.Watch
	// roots and pair are what was last valid in the files. Each counts by itself: a pair that does not fit keeps no CA trusted.
	roots *x509.CertPool
	pair  tls.Certificate
}

// material is a TLS configuration. Each change makes a new one.
type material struct{ config *tls.Config }

// NewFixedTrust returns a trust that changes only with Set.
func NewFixedTrust(config *tls.Config) *Trust {
	t := &Trust{}
	t.Set(config)
	return t
}

// Set changes the configuration. NextProtos has no effect.
func (t *Trust) Set(config *tls.Config) {
	t.current.Store(&material{config})
}

// NewTrust returns the trust in servers with this DNS name in their certificate, whatever their address.
func NewTrust(serverName string, files Files) (*Trust, error) {
	t := &Trust{serverName: serverName, files: files, watch: filewatch.New(files.CA, files.Cert, files.Key)}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// Run watches the files and reads changes, until the context ends.
func (t *Trust) Run(ctx context.Context) {
	if t.watch != nil {
		t.watch.Run(ctx, func() {
			if err := t.read(); err != nil {
				klog.ErrorS(err, "Connections go on with what was in this file before", "server", t.serverName)
			}
		})
	}
}

// read takes over what is valid and new in the files. At the start, all must be valid.
func (t *Trust) read() error {
	contents, err := t.watch.Contents()
	if err != nil {
		return err
	}
	roots, err := cert.NewPoolFromBytes(contents[0])
	if err != nil {
		roots, err = t.roots, fmt.Errorf("%s: %w", t.files.CA, err)
	}
	pair, pairErr := tls.X509KeyPair(contents[1], contents[2])
	if pairErr != nil {
		pair, pairErr = t.pair, fmt.Errorf("%s and %s: %w", t.files.Cert, t.files.Key, pairErr)
	}
	err = errors.Join(err, pairErr)
	if t.roots == nil && err != nil {
		return err
	}
	if roots.Equal(t.roots) && slices.EqualFunc(pair.Certificate, t.pair.Certificate, bytes.Equal) {
		return err
	}
	t.roots, t.pair = roots, pair
	t.Set(&tls.Config{
		RootCAs:    roots,
		ServerName: t.serverName,
		MinVersion: tls.VersionTLS12,
		// Unlike Certificates, this presents the certificate even if the server asks for other CAs. The server can then report what is wrong.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	})
	return err
}

// configFor returns the configuration of a connection for this protocol.
func (m *material) configFor(protocol string) *tls.Config {
	config := m.config.Clone()
	config.NextProtos = []string{protocol}
	if protocol == protocolHTTP2 {
		config.NextProtos = append(config.NextProtos, protocolHTTP1) // without it, such a server would reject the handshake
	}
	return config
}
