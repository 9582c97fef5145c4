// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/x509"
	"net"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
)

// Peers are the open connections of a client or a server. When a CA disappears from the files, Peers closes the connections whose other end
// has a certificate of that CA.
type Peers struct {
	options *Options
	verify  x509.VerifyOptions
	watch   *filewatch.Watch

	mu sync.Mutex
	// open has the certificate chain that each other end sent. The chain is nil during the handshake.
	open map[*peer][]*x509.Certificate
	// changes counts the changes of the files.
	changes int
}

// lookAgain is the time between a handshake and the second verification of its certificates.
const lookAgain = time.Second

// Clients returns the Peers of a server whose clients are other services.
func (o *Options) Clients() *Peers {
	return o.newPeers(x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Servers returns the Peers of a client whose servers have a certificate for serverName.
func (o *Options) Servers(serverName string) *Peers {
	return o.newPeers(x509.VerifyOptions{DNSName: serverName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (o *Options) newPeers(verify x509.VerifyOptions) *Peers {
	return &Peers{options: o, verify: verify, watch: o.watch(), open: map[*peer][]*x509.Certificate{}}
}

// Run closes connections when files change, until the context ends.
func (p *Peers) Run(ctx context.Context) { p.watch.Run(ctx, p.changed) }

// Handshake runs a TLS handshake on a connection. secure makes the TLS connection from the one that it gets. It returns the certificates
// that the other end sent, after it has verified them.
func (p *Peers) Handshake(conn net.Conn, secure func(net.Conn) ([]*x509.Certificate, error)) error {
	one := &peer{Conn: conn, of: p}
	p.mu.Lock()
	p.open[one] = nil
	before := p.changes
	p.mu.Unlock()
	sent, err := secure(one)
	if err != nil {
		p.forget(one)
		return err
	}
	p.mu.Lock()
	if _, open := p.open[one]; open {
		p.open[one] = sent
	}
	changed := before != p.changes
	p.mu.Unlock()
	if changed {
		p.changed()
	}
	// The watch does not notice a CA that came and went between two looks.
	time.AfterFunc(lookAgain, func() { p.checkIfOpen(one) })
	return nil
}

func (p *Peers) checkIfOpen(one *peer) {
	p.mu.Lock()
	_, open := p.open[one]
	p.mu.Unlock()
	if open {
		p.changed()
	}
}

// changed closes the connections whose other end is no longer trusted.
func (p *Peers) changed() {
	roots, err := p.options.Pool()
	if err != nil {
		klog.ErrorS(err, "Connections between services go on with the CAs from before")
		return
	}
	p.mu.Lock()
	p.changes++
	var distrusted []*peer
	for one, sent := range p.open {
		if len(sent) > 0 && !p.trusts(sent, roots) {
			distrusted = append(distrusted, one)
		}
	}
	p.mu.Unlock()
	for _, one := range distrusted {
		klog.InfoS("Closing a connection, because its CA is not trusted any more", "peer", one.RemoteAddr())
		_ = one.Close() // the user of the connection gets the error
	}
}

// trusts reports whether these CAs verify a certificate.
func (p *Peers) trusts(sent []*x509.Certificate, roots *x509.CertPool) bool {
	options := p.verify
	options.Roots = roots
	options.Intermediates = x509.NewCertPool()
	for _, intermediate := range sent[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	_, err := sent[0].Verify(options)
	return err == nil
}

func (p *Peers) forget(one *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, one)
}

// peer is a connection without its TLS.
type peer struct {
	net.Conn
	of *Peers
}

// Close implements net.Conn.
func (c *peer) Close() error {
	c.of.forget(c)
	return c.Conn.Close()
}
