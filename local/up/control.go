// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

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
	"strconv"
	"time"
)

const (
	statusPath = "/status"
	// overParameter is the period for which to count requests.
	overParameter = "over"
	observePath   = "/observe"
	// afterParameter is the number of the last event that the client has.
	afterParameter = "after"
	scalePath      = "/scale"
	stopPath       = "/stop"

	headerTimeout = 5 * time.Second
	// maxSocketPath is the longest path of a Unix socket that all systems allow.
	maxSocketPath = 100
	// pendingLines is how many lines wait for a client that reads slowly. Later lines are lost: the instance does not wait
	// for its observers.
	pendingLines = 1000
)

// controlled is what control needs of an instance.
type controlled interface {
	statuses(ctx context.Context, over time.Duration) []Status
	observe(ctx context.Context, after int64) *Observation
	scale(ctx context.Context, wanted scaleRequest, progress func(line string)) error
	stop()
}

// scaleRequest is the body of a request to scale a service.
type scaleRequest struct {
	Service  string `json:"service"`
	Replicas int    `json:"replicas"`
}

// scaleMessage is one of the messages that answer a scaleRequest. The last one is Done, or has an Error.
type scaleMessage struct {
	Line  string `json:"line,omitempty"`
	Error string `json:"error,omitempty"`
	Done  bool   `json:"done,omitempty"`
}

// control serves status and scaling of a running instance over a Unix socket.
type control struct {
	instance controlled
	server   *http.Server
	served   chan struct{}
}

// startControl serves at the socket of the data directory, which the caller has locked. Requests in progress end with ctx.
func startControl(ctx context.Context, dataDir DataDir, i controlled) (*control, error) {
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
	c := &control{instance: i, served: make(chan struct{})}
	c.server = &http.Server{
		Handler: c.handler(), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // ends with close
	}()
	return c, nil
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, c.status)
	mux.HandleFunc("GET "+observePath, c.observe)
	mux.HandleFunc("POST "+scalePath, c.scale)
	mux.HandleFunc("POST "+stopPath, c.stop)
	return mux
}

func (c *control) close(dataDir DataDir) {
	_ = c.server.Close()
	<-c.served
	_ = os.Remove(dataDir.socket())
}

func (c *control) status(w http.ResponseWriter, req *http.Request) {
	var over time.Duration
	if value := req.URL.Query().Get(overParameter); value != "" {
		var err error
		if over, err = time.ParseDuration(value); err != nil || over < 0 {
			http.Error(w, fmt.Sprintf("%s must be a duration that is not negative, not %q", overParameter, value), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.instance.statuses(req.Context(), over)) // the client has gone when this fails
}

func (c *control) observe(w http.ResponseWriter, req *http.Request) {
	var after int64
	if value := req.URL.Query().Get(afterParameter); value != "" {
		var err error
		if after, err = strconv.ParseInt(value, 10, 64); err != nil || after < 0 {
			http.Error(w, fmt.Sprintf("%s must be the number of an event, not %q", afterParameter, value), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.instance.observe(req.Context(), after)) // the client has gone when this fails
}

// stop answers before the instance stops. The client then waits for the lock of the data directory.
func (c *control) stop(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}\n")) // the client has gone when this fails
	_ = http.NewResponseController(w).Flush()
	c.instance.stop()
}

// scale changes the number of replicas, and streams what happens. It ends when the client disconnects.
func (c *control) scale(w http.ResponseWriter, req *http.Request) {
	var wanted scaleRequest
	if err := json.NewDecoder(req.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lines := make(chan string, pendingLines)
	ended := make(chan error, 1)
	go func() {
		ended <- c.instance.scale(req.Context(), wanted, func(line string) {
			select {
			case lines <- line:
			default:
			}
		})
	}()
	w.Header().Set("Content-Type", "application/json")
	encoder, flusher := json.NewEncoder(w), http.NewResponseController(w)
	send := func(message scaleMessage) { // the client has gone when this fails, and then the context ends
		_ = encoder.Encode(message)
		_ = flusher.Flush()
	}
	for {
		select {
		case line := <-lines:
			send(scaleMessage{Line: line})
			continue
		case err := <-ended:
			for len(lines) > 0 {
				send(scaleMessage{Line: <-lines})
			}
			if err != nil {
				send(scaleMessage{Error: err.Error()})
				return
			}
			send(scaleMessage{Done: true})
			return
		}
	}
}

// shortSocketPath returns a path of the socket that is short enough for the operating system. It is valid until release is
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
