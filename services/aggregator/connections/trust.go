// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// Trust makes the TLS configuration of connections to the servers of one service. While Run runs,
// files that change are read again; connections made before take no new requests then.
type Trust struct {
	serverName string
	ca         *dynamiccertificates.DynamicFileCAContent
	pair       *dynamiccertificates.DynamicCertKeyPairContent
	current    atomic.Pointer[material]
	// reading is held while the files' content is taken over.
	reading sync.Mutex
}

// material is the content of the files at one time. Each change makes another one.
type material struct {
	roots       *x509.CertPool
	certificate *tls.Certificate
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

// Run watches the files until the context ends.
func (t *Trust) Run(ctx context.Context) {
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
	t.current.Store(&material{roots: options.Roots, certificate: &pair})
	return nil
}

// config returns the configuration of a connection that speaks the protocol.
func (t *Trust) config(m *material, protocol string) *tls.Config {
	protocols := []string{protocol}
	if protocol == protocolHTTP2 {
		protocols = append(protocols, protocolHTTP1) // to be told, instead of being refused
	}
	return &tls.Config{
		RootCAs:    m.roots,
		ServerName: t.serverName,
		NextProtos: protocols,
		MinVersion: tls.VersionTLS12,
		// Not Certificates: the client's is shown even where the server names other CAs, so that
		// the server can say what is wrong with it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.certificate, nil },
	}
}
