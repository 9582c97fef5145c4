// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/keepalive"
)

const (
	// dialTimeout is for a connection, and handshakeTimeout for its TLS.
	dialTimeout, handshakeTimeout = 15 * time.Second, 10 * time.Second
)

// CheckConfig refuses what an administrator has not allowed. Otherwise the author of a PediaCluster would decide alone what search connects
// to.
func (l *Limits) CheckConfig(config *rest.Config) error {
	server, err := url.Parse(config.Host)
	if err != nil {
		return errors.New("the address of the API server is not a URL")
	}
	switch {
	case server.Scheme != "https" && (server.Scheme != "http" || !l.allows(allowHTTP)):
		return fmt.Errorf("the API server must be at https://HOST, not %q: a machine on the way could read the credentials (--member-allow=%s "+
			"permits http)", server.Redacted(), allowHTTP)
	case server.User != nil || server.RawQuery != "" || server.Fragment != "" || server.Host == "":
		return fmt.Errorf("the address of the API server must be https://HOST:PORT/PATH, not %q", server.Redacted())
	case config.Insecure && !l.allows(allowInsecureTLS):
		return fmt.Errorf("without the CA of the API server, any server could take its place: give the CA instead of insecure-skip-tls-verify "+
			"(--member-allow=%s permits that)", allowInsecureTLS)
	case config.Proxy != nil && !l.allows(allowProxy):
		return fmt.Errorf("search reaches clusters without proxies: leave out proxy-url, or add the cluster with tripod search "+
			"clusters add --context CONTEXT if search reaches its API server directly (--member-allow=%s permits proxies)", allowProxy)
	}
	if address, err := netip.ParseAddr(server.Hostname()); err == nil && config.Proxy == nil {
		return l.checkAddress(address)
	}
	return nil
}

// metadataServers are those of clouds, besides that at a link-local address.
var metadataServers = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

// checkAddress refuses addresses that mean something else for this machine than for the writer of a PediaCluster.
func (l *Limits) checkAddress(address netip.Addr) error {
	address = address.Unmap()
	kind, permits := "", ""
	switch {
	case address.IsLoopback(), address.IsUnspecified():
		kind, permits = "of this machine itself", allowLoopback
	case address.IsLinkLocalUnicast(), address.WithZone("") == metadataServers[0], address == metadataServers[1]:
		kind, permits = "of the local network only, where clouds have the credentials of machines", allowLinkLocal
	case address.IsMulticast():
		return fmt.Errorf("%s is not the address of a server", address)
	}
	if permits == "" || l.allows(permits) {
		return nil
	}
	return fmt.Errorf("search does not connect to %s, an address %s (--member-allow=%s permits it)", address, kind, permits)
}

// control refuses an address once names are resolved, so that no name can hide it.
func (l *Limits) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	return l.checkAddress(at.Addr())
}

// client returns an HTTP client for a member, and the configuration of what uses it. The transport of the hub's configuration knows by
// itself where to connect.
func (e *memberLimiter) client(config *rest.Config) (*http.Client, error) {
	next, err := e.roundTripper(config)
	if err != nil {
		return nil, err
	}
	bulk, err := e.roundTripper(config)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &guard{memberLimiter: e, next: next, bulk: bulk}, CheckRedirect: refuseRedirect}, nil
}

// roundTripper returns what sends requests with the credentials of a configuration, on connections of its own.
func (e *memberLimiter) roundTripper(config *rest.Config) (http.RoundTripper, error) {
	if config.Transport != nil {
		return rest.TransportFor(config)
	}
	transport, err := e.transport(config)
	if err != nil {
		return nil, err
	}
	return rest.HTTPWrappersForConfig(config, transport)
}

// transport is like that of client-go, without proxies from the environment, and with bounds.
func (e *memberLimiter) transport(config *rest.Config) (http.RoundTripper, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: e.control}
	if config.Proxy != nil { // the administrator trusts it
		dialer.Control = nil
	}
	transport := &http.Transport{
		Proxy: config.Proxy, TLSClientConfig: tls, TLSHandshakeTimeout: handshakeTimeout, DisableCompression: true,
		MaxResponseHeaderBytes: headerSize, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 4, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := e.admitDial(); err != nil {
				return nil, err
			}
			if err := e.connections.awaitRoom(ctx); err != nil {
				return nil, err
			}
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				e.connections.open.Add(-1)
				return nil, err
			}
			e.dialed()
			keepalive.Set(conn)
			return newWire(conn, e.connections, e.overhead), nil
		},
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer(e.Resources + spareDials),
			MaxReadFrameSize: frameSize,
			SendPingTimeout:  30 * time.Second, PingTimeout: 15 * time.Second,
		},
	}
	h2, err := http2.ConfigureTransports(transport)
	if err != nil {
		return nil, err
	}
	h2.MaxHeaderListSize = headerSize
	// An API server that takes no bytes would hold up what ends its requests: x/net/http2 writes a frame for that, whatever the context.
	h2.WriteByteTimeout = e.writeTime
	e.closeIdle = append(e.closeIdle, transport.CloseIdleConnections)
	return transport, nil
}

func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

var errRedirect = errors.New("the API server redirects, which Kubernetes' API servers do not: search sends the credentials of a cluster " +
	"nowhere else")
