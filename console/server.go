// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/console/pages"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

// Bounds of the server. A page asks search several times, so that its answer takes longer than a request.
const (
	maxConnections = 64
	maxRequests    = 8
	maxHeader      = 32 << 10
	stopTimeout    = 3 * time.Second
)

// Options are those of a console.
type Options struct {
	// Config reaches the cluster that search is part of, as the caller.
	Config *rest.Config
	// Port is that of 127.0.0.1, or 0 for a free one.
	Port int
	// Used gets the next address for a browser when the one before was used.
	Used func(address string)
	// Instance observes the instance on this machine. It is nil for any other cluster.
	Instance live.Instance
}

// Server is a console that has its port.
type Server struct {
	listener net.Listener
	guard    *access.Guard
	server   *http.Server
}

// Listen takes the port. Serve must follow.
func Listen(ctx context.Context, options Options) (*Server, error) {
	client, err := searchclient.New(options.Config)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(options.Port)))
	if err != nil {
		return nil, fmt.Errorf("cannot serve the console: %w; --port 0 takes a free port", err)
	}
	guard := access.New(listener.Addr().String(), options.Used)
	shown := access.NewPlaces(maxRequests, maxConnections).Bound(pages.New(client, pages.Options{Instance: options.Instance}))
	return &Server{listener: netutil.LimitListener(listener, maxConnections), guard: guard, server: newHTTPServer(guard.Wrap(shown))}, nil
}

// newHTTPServer returns a server with the bounds of a console.
func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:     handler,
		ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: access.PageTimeout + 30*time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what browsers send is no news
	}
}

// Address is where a browser signs in, once.
func (s *Server) Address() string { return s.guard.Address() }

// Serve serves the console until the context ends.
func (s *Server) Serve(ctx context.Context) error { return serve(ctx, s.server, s.listener) }

func serve(ctx context.Context, server *http.Server, at net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(at) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return errors.Join(server.Close(), ignoreClosed(<-served))
	}
	return ignoreClosed(<-served)
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
