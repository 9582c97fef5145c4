// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
)

const (
	// checkTimeout is shorter than an aggregator waits for an answer to its probe.
	checkTimeout = time.Second
	// checkFresh is how long a result counts. Any client may ask.
	checkFresh = 500 * time.Millisecond
)

// errNotReady is what any client may know.
var errNotReady = errors.New("not ready: see the log of the replica")

// shared is a ReadyCheck whose result is for all callers that ask at the same time.
type shared struct {
	ReadyCheck
	environment *Environment

	mu  sync.Mutex
	at  time.Time
	err error
}

var _ healthz.HealthChecker = &shared{}

func newShared(c ReadyCheck, e *Environment) *shared { return &shared{ReadyCheck: c, environment: e} }

// Name implements healthz.HealthChecker.
func (s *shared) Name() string { return s.ReadyCheck.Name }

// Check implements healthz.HealthChecker.
func (s *shared) Check(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < checkFresh {
		return s.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout) // not of the request, whose sender may leave
	defer cancel()
	err := s.ReadyCheck.Check(ctx, s.environment)
	switch {
	case err != nil && s.err == nil:
		klog.ErrorS(err, "This replica is not ready", "check", s.ReadyCheck.Name)
	case err == nil && s.err != nil:
		klog.InfoS("This replica passes the check again", "check", s.ReadyCheck.Name)
	}
	s.at, s.err = time.Now(), nil
	if err != nil {
		s.err = errNotReady
	}
	return s.err
}
