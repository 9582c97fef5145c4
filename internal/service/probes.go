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

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
)

// newProbesFlag returns the flag --probe-bind-address, which says where probes are answered.
func newProbesFlag() addresses.BindFlag {
	return addresses.BindFlag{
		Name: "probe-bind-address",
		Usage: "Address (host:port) that serves /livez, /readyz and /healthz over plain HTTP without authentication, for probes. " +
			"Empty serves them nowhere but at --secure-port.",
	}
}

// Probes answers probes as long as the process lives, also while it starts and stops.
type Probes struct {
	health atomic.Pointer[http.Handler]
	// waitsFor is what the service needs before it knows its own health.
	waitsFor string
}

// startProbes listens and answers: alive, and not ready before Serve because of what the service waits for. It returns nil where
// probes are not wanted.
func startProbes(where *addresses.BindFlag, waitsFor string) (*Probes, error) {
	listener, err := where.Listen()
	if listener == nil {
		return nil, err
	}
	s := &Probes{waitsFor: waitsFor}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Probes are not answered any more", "address", where.Address)
		}
	}()
	return s, nil
}

// Serve answers with what health says from now on.
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
