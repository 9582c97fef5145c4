// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals ends a context at the first SIGTERM or SIGINT, and the process with exit code 1 at the second one, as kube-apiserver does.
type Signals struct {
	arrived           chan os.Signal
	release, released chan struct{}
}

// NotifySignals handles signals from now on, and returns the context that ends.
func NotifySignals() (context.Context, *Signals) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Signals{arrived: make(chan os.Signal, 2), release: make(chan struct{}), released: make(chan struct{})}
	signal.Notify(s.arrived, syscall.SIGTERM, syscall.SIGINT)
	go s.handle(cancel)
	return ctx, s
}

// Release handles signals no longer: another program may take the place of this one. Signals that came earlier have ended the context then,
// so that none is lost, and a later one ends the process.
func (s *Signals) Release() {
	signal.Stop(s.arrived)
	close(s.release)
	<-s.released
}

func (s *Signals) handle(cancel func()) {
	defer close(s.released)
	select {
	case <-s.arrived:
		cancel()
	case <-s.release:
		select {
		case <-s.arrived:
			cancel()
		default:
		}
		return
	}
	select {
	case <-s.arrived:
		os.Exit(1)
	case <-s.release:
	}
}
