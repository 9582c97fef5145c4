// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"k8s.io/component-base/tracing"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

const (
	// maxMessage bounds what a caller may send, in bytes: a token, at most, which comes from a header of 1 MiB or a bit more.
	maxMessage = 2 << 20
	// maxStreams bounds the calls of one connection that are worked on at the same time.
	maxStreams = 1000
	// handshakeTimeout bounds how long a client without a certificate may stay connected.
	handshakeTimeout = 10 * time.Second
	// stopTimeout bounds how long calls may go on when the server stops.
	stopTimeout = 2 * time.Second
)

// Server is a gRPC server for certain services. It serves grpc.health.v1, where everything is not serving at first.
type Server struct {
	*grpc.Server
	Health *health.Server

	clients *trust.Peers
}

// NewServer returns a server that lets in clients with a certificate of the service CA with one of the names.
func NewServer(trust *trust.Options, names []string, tracer trace.TracerProvider) *Server {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return serverTLS(trust, names)
		},
	}
	clients := trust.Clients()
	s := &Server{
		clients: clients,
		Server: grpc.NewServer(
			grpc.Creds(&serverFiles{credentials.NewTLS(config), clients}),
			grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(tracer), otelgrpc.WithPropagators(tracing.Propagators()))),
			grpc.UnaryInterceptor(unary),
			grpc.StreamInterceptor(stream),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
			grpc.MaxRecvMsgSize(maxMessage),
			grpc.MaxConcurrentStreams(maxStreams),
		),
		Health: health.NewServer(),
	}
	s.Health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(s.Server, s.Health)
	return s
}

// serverFiles are credentials that know whom the server has let in.
type serverFiles struct {
	credentials.TransportCredentials
	clients *trust.Peers
}

// ServerHandshake implements credentials.TransportCredentials.
func (f *serverFiles) ServerHandshake(conn net.Conn) (secured net.Conn, info credentials.AuthInfo, err error) {
	return handshake(f.clients, conn, f.TransportCredentials.ServerHandshake)
}

// Clone implements credentials.TransportCredentials.
func (f *serverFiles) Clone() credentials.TransportCredentials {
	return &serverFiles{f.TransportCredentials.Clone(), f.clients}
}

// handshake has a connection closed when the other end is not trusted any more.
func handshake(
	peers *trust.Peers, conn net.Conn, secure func(net.Conn) (net.Conn, credentials.AuthInfo, error),
) (secured net.Conn, info credentials.AuthInfo, err error) {
	err = peers.Handshake(conn, func(conn net.Conn) ([]*x509.Certificate, error) {
		if secured, info, err = secure(conn); err != nil {
			return nil, err
		}
		return info.(credentials.TLSInfo).State.PeerCertificates, nil
	})
	return secured, info, err
}

func serverTLS(trust *trust.Options, names []string) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(trust.CertFile, trust.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of this service: %w", err)
	}
	cas, err := trust.Pool()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    cas,
		VerifyConnection: func(state tls.ConnectionState) error {
			return allowed(state.PeerCertificates[0], names)
		},
		// Every connection is verified anew.
		SessionTicketsDisabled: true,
	}, nil
}

func allowed(caller *x509.Certificate, names []string) error {
	if name := caller.Subject.CommonName; !slices.Contains(names, name) {
		return fmt.Errorf("%q may not call this service", name)
	}
	return nil
}

// Serve serves on the listener until the context ends, and then gives calls a moment to end.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	go s.clients.Run(ctx)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.Health.Shutdown()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Server.GracefulStop()
		}()
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			s.Server.Stop() // it does not wait for handlers
		}
	})
	err := s.Server.Serve(listener)
	if stop() {
		return fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), err)
	}
	<-stopped
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}
