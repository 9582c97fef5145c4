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
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/hub"
	"github.com/tripod-k8s/tripod/console/pages"
)

// Bounds of the server. A page asks search several times, so that its answer takes longer than a request.
const (
	maxConnections = 64
	maxRequests    = 8
	maxHeader      = 32 << 10
	pageTimeout    = 30 * time.Second
	stopTimeout    = 3 * time.Second
)

// Options are those of a console.
type Options struct {
	// Config reaches the cluster that search is part of, as the caller.
	Config *rest.Config
	// Port is that of 127.0.0.1, or 0 for a free one.
	Port int
	// Out gets the address for a browser, and another one after each use.
	Out io.Writer
}

// Serve serves the console until the context ends.
func Serve(ctx context.Context, options Options) error {
	client, err := hub.New(options.Config)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(options.Port)))
	if err != nil {
		return fmt.Errorf("cannot serve the console: %w; --port 0 takes a free port", err)
	}
	defer listener.Close() //nolint:errcheck // Shutdown closes it, too
	var printing sync.Mutex
	say := func(text string) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintln(options.Out, text) //nolint:errcheck // a closed terminal ends nothing
	}
	guard := access.New(listener.Addr().String(), func(address string) { say("Signed in. Another browser can use " + address) })
	server := &http.Server{
		Handler:     guard.Wrap(bounded(pages.New(client))),
		ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: pageTimeout + 30*time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what browsers send is no news
	}
	say("The console of " + client.Server() + " is at\n\n    " + guard.Address() + "\n\nuntil Ctrl-C. The address signs one browser in, once.")
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
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

// bounded gives each request a time, and serves some of them at once.
func bounded(next http.Handler) http.Handler {
	places := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), pageTimeout)
		defer cancel()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, req.WithContext(ctx))
		case <-ctx.Done():
			http.Error(w, "The console is busy: try again.", http.StatusServiceUnavailable)
		}
	})
}
