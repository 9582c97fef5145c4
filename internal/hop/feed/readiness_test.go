// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
)

func TestFailingChecksAreThoseOfReadyz(t *testing.T) {
	broken := true
	checks := mux.NewPathRecorderMux("test")
	healthz.InstallReadyzHandler(checks, healthz.PingHealthz,
		healthz.NamedCheck("etcd", func(*http.Request) error {
			if broken {
				return errors.New("no etcd")
			}
			return nil
		}))
	if got := failingChecks(t.Context(), checks); !slices.Equal(got, []string{"etcd"}) {
		t.Errorf("failing checks are %q", got)
	}
	broken = false
	if got := failingChecks(t.Context(), checks); got != nil {
		t.Errorf("failing checks are %q", got)
	}
	if got := failingChecks(t.Context(), http.NotFoundHandler()); !slices.Equal(got, []string{"readyz"}) {
		t.Errorf("without checks %q fail", got)
	}
}
