// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"
)

// Beside is a gRPC server beside the API of a service.
type Beside struct {
	// API runs the API until its context ends.
	API func(context.Context) error
	// Server serves on Listener for as long as the API runs.
	Server   *Server
	Listener net.Listener
	// Drain is called when the API begins to stop, and Stop when it has: it must end all streams.
	Drain, Stop func()
}

// Run runs both until the context ends or one fails.
func (b Beside) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	served, stopped := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() error {
		defer stopped()
		return b.API(ctx)
	})
	running.Go(func() error { return b.Server.Serve(served, b.Listener) })
	defer context.AfterFunc(ctx, func() {
		b.Server.Health.Shutdown()
		b.Drain()
	})()
	defer context.AfterFunc(served, b.Stop)()
	return running.Wait()
}
