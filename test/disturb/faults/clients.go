// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// client-go closes connections whose certificate was replaced. By default it looks for that less often.
func init() { transport.CertCallbackRefreshDuration = time.Second }

// makeClients makes the clients that all faults use.
func (c *cluster) makeClients() (err error) {
	if c.administrator, err = c.reconnecting(asClientGo, c.tlsConfig); err != nil {
		return err
	}
	if c.direct, err = c.reconnecting(pings{time.Second, time.Second}, c.tlsConfig); err != nil {
		return err
	}
	c.administrator.Timeout, c.direct.Timeout = requestTimeout, time.Second
	c.user, err = c.reconnecting(impatient, func() (*tls.Config, error) {
		return c.certified("ca", reader, time.Now().AddDate(1, 0, 0))
	})
	if err != nil {
		return err
	}
	roots, err := c.roots()
	c.anonymous = &http.Client{Transport: newTransport(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}, impatient)}
	return err
}

// tlsConfig returns the TLS configuration of an administrator, for connections with and without the load balancer.
func (c *cluster) tlsConfig() (*tls.Config, error) {
	config, err := rest.TLSConfigFor(c.admin())
	if err == nil {
		config.ServerName = "localhost"
	}
	return config, err
}

// admin returns the configuration of a user in the group system:masters. It uses the load balancer.
func (c *cluster) admin() *rest.Config { return c.config("admin") }

// proxy returns the same for a proxy that authenticates this user.
func (c *cluster) proxy() *rest.Config {
	config := c.config("front-proxy-client")
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return speakingFor{user: "kubernetes-admin", group: "system:masters", next: next}
	}
	return config
}

func (c *cluster) config(certificate string) *rest.Config {
	file := func(name string) string { return filepath.Join(c.pki, name) }
	return &rest.Config{Host: c.url, QPS: -1, Timeout: requestTimeout, TLSClientConfig: rest.TLSClientConfig{
		CAFile: file(serverCA + ".crt"), CertFile: file(certificate + ".crt"), KeyFile: file(certificate + ".key"),
	}}
}

// speakingFor sends requests as an authenticating proxy.
type speakingFor struct {
	user, group string
	next        http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s speakingFor) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Remote-User", s.user)
	req.Header.Set("X-Remote-Group", s.group)
	return s.next.RoundTrip(req)
}

// CloseIdleConnections is what http.Client looks for.
func (s speakingFor) CloseIdleConnections() {
	if closer, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// reconnecting returns a client that opens new connections, with a new configuration, after each reconnect of the cluster.
func (c *cluster) reconnecting(ping pings, configure func() (*tls.Config, error)) (*http.Client, error) {
	r := &reconnector{}
	reconnect := func() error {
		config, err := configure()
		if err != nil {
			return err
		}
		if old := r.current.Swap(newTransport(config, ping)); old != nil {
			old.CloseIdleConnections()
		}
		return nil
	}
	c.reconnections = append(c.reconnections, reconnect)
	return &http.Client{Transport: r}, reconnect()
}

// reconnector sends requests over new connections. Requests in flight finish on old ones.
type reconnector struct {
	current atomic.Pointer[http.Transport]
}

// RoundTrip implements http.RoundTripper.
func (r *reconnector) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.current.Load().RoundTrip(req)
}

// reconnect makes all clients use new connections and certificates.
func (c *cluster) reconnect() error {
	var errs []error
	for _, reconnect := range c.reconnections {
		errs = append(errs, reconnect())
	}
	if c.load != nil {
		errs = append(errs, c.load.client.Reconnect())
	}
	return errors.Join(errs...)
}

// pings are after how much silence a client pings a connection, and how long it waits for the answer.
type pings struct{ after, within time.Duration }

var (
	asClientGo = pings{30 * time.Second, 15 * time.Second}
	impatient  = pings{2 * time.Second, 2 * time.Second}
)

func newTransport(config *tls.Config, ping pings) *http.Transport {
	return &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: ping.after, PingTimeout: ping.within},
	}
}

// roots returns the authority of server certificates.
func (c *cluster) roots() (*x509.CertPool, error) {
	authority, err := c.authority(serverCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	return roots, nil
}

func (c *cluster) authority(name string) (tls.Certificate, error) {
	authority, err := tls.LoadX509KeyPair(filepath.Join(c.pki, name+".crt"), filepath.Join(c.pki, name+".key"))
	if err != nil {
		return authority, fmt.Errorf("cannot read authority %s: %w", name, err)
	}
	return authority, nil
}

// certified returns the configuration of a client whose certificate an authority issues. It is valid until then.
func (c *cluster) certified(authorityName, user string, until time.Time) (*tls.Config, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	authority, err := c.authority(authorityName)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now().Add(-aged), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}
