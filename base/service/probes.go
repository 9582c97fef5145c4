// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// newProbesFlag returns the flag --probe-bind-address, which says where probes are answered.
func newProbesFlag() addresses.BindFlag {
	return addresses.BindFlag{
		Name: "probe-bind-address",
		Usage: "Address (host:port) that serves /livez, /readyz and /healthz over plain HTTP without authentication, for probes. " +
			"If empty, only --secure-port serves them.",
	}
}

// Probes answers probes as long as the process lives, also while it starts and stops.
type Probes struct {
	health atomic.Pointer[http.Handler]
	// waitsFor is what the service needs before it knows its own health.
	waitsFor string
}

// startProbes listens, and answers until Serve: the process lives, and is not ready because of what the service waits for. It returns nil
// without an address.
func startProbes(where *addresses.BindFlag, waitsFor string) (*Probes, error) {
	listener, err := where.Listen()
	if listener == nil {
		return nil, err
	}
	s := &Probes{waitsFor: waitsFor}
	server := NewProbeServer(s)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Probes are not answered any more", "address", where.Address)
		}
	}()
	return s, nil
}

// NewProbeServer returns a server that any client may connect to. It closes connections of clients that send, read or ask nothing. A probe
// is small, and uses a connection of its own.
func NewProbeServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:        handler,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   30 * time.Second, // a check may wait for etcd
		IdleTimeout:    10 * time.Second,
		MaxHeaderBytes: 8 << 10,
	}
}

// Serve makes health answer all later probes.
func (s *Probes) Serve(health http.Handler) {
	if s != nil {
		s.health.Store(&health)
	}
}

// ServeHTTP implements http.Handler.
func (s *Probes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	check, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if check != "livez" && check != "readyz" && check != "healthz" {
		http.NotFound(w, req)
		return
	}
	switch health := s.health.Load(); {
	case health != nil:
		(*health).ServeHTTP(w, req)
	case check == "livez":
		_, _ = io.WriteString(w, "ok")
	default:
		http.Error(w, "[-]"+s.waitsFor+" failed: not reached yet\n"+check+" check failed", http.StatusInternalServerError)
	}
}
