// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"net"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"k8s.io/component-base/tracing"

	hopkeepalive "github.com/tripod-k8s/tripod/base/hop/keepalive"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// Both ends find out after this time of silence whether the other is still there. A client may not do so more often. The other end may be
// busy, so it may take long.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 20 * time.Second
)

const (
	// dialTimeout bounds how long a host may take to accept a connection. Its kernel does that, however busy the service is.
	dialTimeout = 2 * time.Second
	// connectTimeout bounds that and the handshake, which a busy service may delay. To begin anew would only be more work for it.
	connectTimeout = 20 * time.Second
	// lostTimeout is how long a host may leave data unacknowledged. Its kernel acknowledges them. So the host or the network is lost.
	lostTimeout = 5 * time.Second
)

// Conn is a connection to a replica. It breaks when the CA of the replica's certificate is taken away.
type Conn struct {
	*grpc.ClientConn
	forget context.CancelFunc
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.forget()
	return c.ClientConn.Close()
}

// Dial returns a connection to the replica of a service ("core", ...) at an address (host:port), whatever names the host
// has. It does not wait for it: connections are made, and made again, when they are needed.
func Dial(address, service string, identity *trust.Options, tracer trace.TracerProvider) (*Conn, error) {
	name := trust.ServerName(service)
	files := &clientFiles{trust: identity, serverName: name, servers: identity.Servers(name)}
	if _, err := files.read(); err != nil {
		return nil, err
	}
	client, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(files),
		grpc.WithAuthority(files.serverName),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(tracer), otelgrpc.WithPropagators(tracing.Propagators()))),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, err
	}
	watching, forget := context.WithCancel(context.Background())
	go files.servers.Run(watching)
	return &Conn{client, forget}, nil
}

// clientFiles are credentials that are read for every connection that is made.
type clientFiles struct {
	trust      *trust.Options
	serverName string
	servers    *trust.Peers
}

func (f *clientFiles) read() (credentials.TransportCredentials, error) {
	config, err := f.trust.ClientConfig(f.serverName)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *clientFiles) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	current, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	hopkeepalive.LimitUnacknowledged(conn, lostTimeout) // grpc has set keepaliveTimeout
	return handshake(f.servers, conn, func(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
		return current.ClientHandshake(ctx, authority, conn)
	})
}

// ServerHandshake implements credentials.TransportCredentials.
func (f *clientFiles) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are the credentials of a client")
}

// Info implements credentials.TransportCredentials.
func (f *clientFiles) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (f *clientFiles) Clone() credentials.TransportCredentials {
	clone := *f
	return &clone
}

// OverrideServerName implements credentials.TransportCredentials.
func (f *clientFiles) OverrideServerName(name string) error {
	f.serverName = name
	return nil
}
