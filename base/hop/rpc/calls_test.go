// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// service answers calls with functions.
type service struct {
	identityv1.UnimplementedIdentityServer
	authenticate func(context.Context, *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error)
	watch        func(grpc.ServerStreamingServer[identityv1.WatchResponse]) error
}

func (s *service) Authenticate(ctx context.Context, r *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	return s.authenticate(ctx, r)
}

func (s *service) Watch(_ *identityv1.WatchRequest, stream grpc.ServerStreamingServer[identityv1.WatchResponse]) error {
	return s.watch(stream)
}

// client returns a client of the service.
func client(t *testing.T, s *service) identityv1.IdentityClient {
	t.Helper()
	own := newAuthority(t)
	address, _ := serveAt(t, "127.0.0.1:0", own.trust(t, "core"), s)
	return identityv1.NewIdentityClient(connect(t, address, "core", own.trust(t, "aggregator")))
}

func TestATraceGoesOnBehindTheCall(t *testing.T) {
	want := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	var got trace.SpanContext
	c := client(t, &service{authenticate: func(ctx context.Context, _ *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
		got = trace.SpanContextFromContext(ctx)
		return &identityv1.AuthenticateResponse{}, nil
	}})
	if _, err := c.Authenticate(trace.ContextWithSpanContext(t.Context(), want), &identityv1.AuthenticateRequest{}); err != nil {
		t.Fatal(err)
	}
	if got.TraceID() != want.TraceID() || !got.IsSampled() {
		t.Errorf("the trace is %v, want %v", got, want)
	}
}

func TestAPanicIsAnErrorOfOneCall(t *testing.T) {
	c := client(t, &service{
		authenticate: func(context.Context, *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
			panic("authenticate")
		},
		watch: func(grpc.ServerStreamingServer[identityv1.WatchResponse]) error { panic("watch") },
	})
	if _, err := c.Authenticate(t.Context(), &identityv1.AuthenticateRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("error is %v", err)
	}
	stream, err := c.Watch(t.Context(), &identityv1.WatchRequest{})
	require.NoError(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("error is %v", err)
	}
}

// The largest token that a client can send is in a header of 1 MiB and a bit that http.Server adds.
func TestTheLargestTokenIsLookedAt(t *testing.T) {
	c := client(t, &service{authenticate: func(context.Context, *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
		return &identityv1.AuthenticateResponse{}, nil
	}})
	for size, want := range map[int]codes.Code{1<<20 + 1<<13: codes.OK, maxMessage: codes.ResourceExhausted} {
		_, err := c.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: strings.Repeat("a", size)})
		assert.Equal(t, want, status.Code(err), "%d bytes: error is %v", size, err)
	}
}

// caller returns the context of a call with certificate chains that end after these times.
func caller(ctx context.Context, chains ...[]time.Duration) context.Context {
	var state tls.ConnectionState
	for _, chain := range chains {
		var certificates []*x509.Certificate
		for _, ends := range chain {
			certificates = append(certificates, &x509.Certificate{NotAfter: time.Now().Add(ends)})
		}
		state.VerifiedChains = append(state.VerifiedChains, certificates)
	}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

func TestCallsEndWithTheCertificate(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for name, chains := range map[string][][]time.Duration{
		"the caller's":         {{hour, day}},
		"that of its CA":       {{day, hour}},
		"those of every chain": {{hour / 2, day}, {day, hour}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := caller(t.Context(), chains...)
				called := false
				call := func() error {
					called = false
					_, err := unary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { called = true; return nil, nil })
					return err
				}
				ended := make(chan error, 1)
				go func() {
					ended <- stream(nil, &serverStream{ctx: ctx}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error {
						<-s.Context().Done()
						return context.Cause(s.Context())
					})
				}()
				began := time.Now()
				time.Sleep(hour - time.Nanosecond)
				if err := call(); err != nil || !called {
					t.Errorf("before: %v", err)
				}
				if err := <-ended; status.Code(err) != codes.Unauthenticated {
					t.Errorf("the stream ends with %v", err)
				}
				assert.Equal(t, hour, time.Since(began), "the stream ends after")
				if err := call(); status.Code(err) != codes.Unauthenticated || called {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}
