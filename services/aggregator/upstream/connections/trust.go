// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// Files are what a client shows to the servers of a service, and how it knows them.
type Files struct {
	// CA signs the certificates of the servers.
	CA string
	// Cert and Key are the client's own certificate.
	Cert, Key string
}

// Trust makes the TLS configuration of connections to the servers of one service. When it changes,
// connections made before take no new requests.
type Trust struct {
	current atomic.Pointer[material]

	// What follows is nil, or not used, for a trust that is set and not read from files.

	serverName string
	ca         *dynamiccertificates.DynamicFileCAContent
	pair       *dynamiccertificates.DynamicCertKeyPairContent
	// reading is held while the files' content is taken over.
	reading sync.Mutex
}

// material is what a trust consists of at one time. Each change makes another one.
type material struct{ config *tls.Config }

// NewFixedTrust returns a trust that is what it was last Set to.
func NewFixedTrust(config *tls.Config) *Trust {
	t := &Trust{}
	t.Set(config)
	return t
}

// Set changes the trust. The configuration's protocols (NextProtos) mean nothing here.
func (t *Trust) Set(config *tls.Config) {
	t.current.Store(&material{config})
}

// NewTrust returns the trust in servers whose certificate has that DNS name, whatever their address is.
func NewTrust(serverName string, files Files) (*Trust, error) {
	t := &Trust{serverName: serverName}
	var err error
	if t.ca, err = dynamiccertificates.NewDynamicCAContentFromFile("ca-of-"+serverName, files.CA); err != nil {
		return nil, err
	}
	if t.pair, err = dynamiccertificates.NewDynamicServingContentFromFiles("client-of-"+serverName, files.Cert, files.Key); err != nil {
		return nil, err
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	t.ca.AddListener(t)
	t.pair.AddListener(t)
	return t, nil
}

// Run watches the files until the context ends, and takes over what they change to.
func (t *Trust) Run(ctx context.Context) {
	if t.ca == nil {
		return
	}
	var watches sync.WaitGroup
	watches.Go(func() { t.ca.Run(ctx, 1) })
	watches.Go(func() { t.pair.Run(ctx, 1) })
	watches.Wait()
}

// Enqueue implements dynamiccertificates.Listener: the content of a file has changed.
func (t *Trust) Enqueue() {
	if err := t.read(); err != nil {
		klog.ErrorS(err, "Connections go on with the certificates from before", "server", t.serverName)
	}
}

func (t *Trust) read() error {
	t.reading.Lock()
	defer t.reading.Unlock()
	options, ok := t.ca.VerifyOptions()
	if !ok {
		return fmt.Errorf("%s has no certificates of a CA", t.ca.Name())
	}
	pair, err := tls.X509KeyPair(t.pair.CurrentCertKeyContent())
	if err != nil {
		return fmt.Errorf("%s: %w", t.pair.Name(), err)
	}
	t.Set(&tls.Config{
		RootCAs:    options.Roots,
		ServerName: t.serverName,
		MinVersion: tls.VersionTLS12,
		// Not Certificates: the client's is shown even where the server names other CAs, so that
		// the server can say what is wrong with it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	})
	return nil
}

// configFor returns the configuration of a connection that speaks the protocol.
func (m *material) configFor(protocol string) *tls.Config {
	config := m.config.Clone()
	config.NextProtos = []string{protocol}
	if protocol == protocolHTTP2 {
		config.NextProtos = append(config.NextProtos, protocolHTTP1) // to be told, instead of being refused
	}
	return config
}
