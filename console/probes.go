// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/console/connections"
)

// probes answers the probes of a console. It is nil where none are answered.
type probes struct{ listener net.Listener }

func listenForProbes(at *addresses.BindFlag) (*probes, error) {
	listener, err := at.Listen()
	if listener == nil {
		return nil, err
	}
	return &probes{connections.Listen(listener, maxProbesOfNetwork, maxProbeConnections)}, nil
}

// serve answers probes until the context ends.
func (p *probes) serve(ctx context.Context, ready func() bool) error {
	if p == nil {
		return nil
	}
	return serve(ctx, service.NewProbeServer(answerProbes(ready)), p.listener)
}

func answerProbes(ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "The console stops.", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	return mux
}
