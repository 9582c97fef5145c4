// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"k8s.io/klog/v2"
)

// A connection may live longer than the certificate with which it was made. Its calls do not.
var errExpired = status.Error(codes.Unauthenticated, "the certificate of this connection has expired")

// unary works on one call.
func unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer recoverCall(info.FullMethod, &err)
	if ends, ok := certificateEnds(ctx); ok && !time.Now().Before(ends) {
		return nil, errExpired
	}
	return handler(ctx, req)
}

// stream works on one call of a stream.
func stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recoverCall(info.FullMethod, &err)
	ends, ok := certificateEnds(s.Context())
	if !ok {
		return handler(srv, s)
	}
	ctx, cancel := context.WithDeadlineCause(s.Context(), ends, errExpired)
	defer cancel()
	return handler(srv, &endingStream{ServerStream: s, ctx: ctx})
}

// endingStream is a stream whose context ends earlier.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *endingStream) Context() context.Context { return s.ctx }

// certificateEnds returns when no chain of certificates of the caller is good any more.
func certificateEnds(ctx context.Context) (time.Time, bool) {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return time.Time{}, false
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return time.Time{}, false
	}
	var last time.Time
	for _, chain := range info.State.VerifiedChains {
		ends := chain[0].NotAfter
		for _, certificate := range chain[1:] {
			if certificate.NotAfter.Before(ends) {
				ends = certificate.NotAfter
			}
		}
		if ends.After(last) {
			last = ends
		}
	}
	return last, true
}

// recoverCall makes an error of a panic. Without it, one call that fails so would end the process, as it does not in an HTTP
// server. The request is not logged: it may hold a token.
func recoverCall(method string, err *error) {
	if reason := recover(); reason != nil {
		klog.ErrorS(nil, "A gRPC call panicked", "method", method, "reason", reason, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the call panicked; the log of the server says where")
	}
}
