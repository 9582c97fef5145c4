// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/internal/supervisor"
)

const (
	statusPath    = "/status"
	statusTimeout = 5 * time.Second
	// maxSocketPath is how long the path of a Unix socket may be on all systems.
	maxSocketPath = 100
)

// control answers questions about a running instance over a Unix socket.
type control struct {
	server *http.Server
	served chan struct{}
}

// startControl serves at the socket of the data directory, which the caller has locked.
func startControl(dataDir DataDir, statuses func() []supervisor.Status) (*control, error) {
	if err := os.Remove(dataDir.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace the control socket: %w", err)
	}
	path, release, err := shortSocketPath(dataDir)
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w", err)
	}
	if err := os.Chmod(dataDir.socket(), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect the control socket: %w", err), listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(statuses()) // the client has gone when this fails
	})
	c := &control{server: &http.Server{Handler: mux, ReadHeaderTimeout: statusTimeout}, served: make(chan struct{})}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // ends with close
	}()
	return c, nil
}

func (c *control) close(dataDir DataDir) {
	_ = c.server.Close()
	<-c.served
	_ = os.Remove(dataDir.socket())
}

// Status asks the instance that runs in the data directory for the state of its processes.
func Status(ctx context.Context, dataDir DataDir) ([]supervisor.Status, error) {
	path, release, err := shortSocketPath(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("tripod does not run in %s", dataDir)
	}
	if err != nil {
		return nil, err
	}
	defer release()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tripod"+statusPath, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(req)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("tripod does not run in %s", dataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot ask the instance in %s: %w", dataDir, err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing depends on it
	var statuses []supervisor.Status
	if err := json.NewDecoder(response.Body).Decode(&statuses); err != nil {
		return nil, fmt.Errorf("cannot read the answer of the instance in %s: %w", dataDir, err)
	}
	return statuses, nil
}

// shortSocketPath returns a path of the socket that is short enough for the operating system, valid until release is
// called.
func shortSocketPath(dataDir DataDir) (path string, release func(), err error) {
	path = dataDir.socket()
	if len(path) <= maxSocketPath || runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(string(dataDir))
	if err != nil {
		return "", nil, fmt.Errorf("cannot open the data directory: %w", err)
	}
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	return short, func() { _ = dir.Close() }, nil
}
