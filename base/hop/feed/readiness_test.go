// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/metrics/testutil"
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
	assert.Equal(t, []string{"etcd"}, failingChecks(t.Context(), checks), "failing checks")
	broken = false
	if got := failingChecks(t.Context(), checks); got != nil {
		t.Errorf("failing checks are %q", got)
	}
	if got := failingChecks(t.Context(), http.NotFoundHandler()); !slices.Equal(got, []string{"readyz"}) {
		t.Errorf("without checks %q fail", got)
	}
}

func TestNoProbeFindsAReplicaReadyBeforeOthersKnow(t *testing.T) {
	var failing error
	checks := mux.NewPathRecorderMux("test")
	healthz.InstallReadyzHandler(checks, healthz.NamedCheck("etcd", func(*http.Request) error { return failing }))
	var received []string
	readiness := NewReadiness(checks, func(failing []string) { received = append(received, strings.Join(failing, ",")) }, nil)
	probe := func() int {
		answer := httptest.NewRecorder()
		readiness.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code
	}
	for _, step := range []struct {
		failing  error
		want     int
		received []string
	}{
		{errors.New("no etcd"), http.StatusInternalServerError, []string{"etcd"}},
		{nil, http.StatusOK, []string{"etcd", ""}},
		{nil, http.StatusOK, []string{"etcd", ""}},
	} {
		failing = step.failing
		assert.Equal(t, step.want, probe())
		assert.Equal(t, step.received, received)
	}
}

// TestAReplicaWithoutRequestsIsCheckedLessOften counts the checks of ten seconds.
func TestAReplicaWithoutRequestsIsCheckedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived, checked atomic.Uint64
		var failing atomic.Pointer[error]
		checks := mux.NewPathRecorderMux("test")
		healthz.InstallReadyzHandler(checks, healthz.NamedCheck("storage", func(*http.Request) error {
			checked.Add(1)
			if err := failing.Load(); err != nil {
				return *err
			}
			return nil
		}))
		go NewReadiness(checks, func([]string) {}, arrived.Load).Follow(t.Context())
		during := func(d time.Duration) uint64 {
			before := checked.Load()
			time.Sleep(d)
			synctest.Wait()
			return checked.Load() - before
		}
		during(time.Second)
		assert.EqualValues(t, 10, during(10*time.Second), "no requests")
		arrived.Add(1)
		assert.EqualValues(t, 1, during(readyInterval), "a request")
		noEtcd := errors.New("no etcd")
		failing.Store(&noEtcd)
		during(quietInterval)
		assert.EqualValues(t, 20, during(10*time.Second), "it is not ready")
	})
}

func TestProbesAreNoRequests(t *testing.T) {
	var c Counter
	handler := c.count(http.NotFoundHandler())
	for _, path := range []string{"/readyz", "/livez", "/healthz", "/api/v1/pods", "/readyz/etcd"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	assert.EqualValues(t, 2, c.Arrived())
	assert.Zero(t, c.InFlight())
}

// TestFailingChecksAreCounted reads the metric after each check.
func TestFailingChecksAreCounted(t *testing.T) {
	failing := map[string]error{}
	named := func(name string) healthz.HealthChecker {
		return healthz.NamedCheck(name, func(*http.Request) error { return failing[name] })
	}
	checks := mux.NewPathRecorderMux("test")
	healthz.InstallReadyzHandler(checks, named("etcd"), named("informers"))
	readiness := NewReadiness(checks, func([]string) {}, nil)
	value := func(check string) float64 {
		n, err := testutil.GetGaugeMetricValue(failingGauge.WithLabelValues(check))
		assert.NoError(t, err)
		return n
	}
	expect := func(etcd, informers float64) {
		t.Helper()
		readiness.check(t.Context())
		assert.Equal(t, etcd, value("etcd"), "etcd")
		assert.Equal(t, informers, value("informers"), "informers")
	}
	expect(0, 0)
	failing["etcd"] = errors.New("no etcd")
	expect(1, 0)
	failing["informers"] = errors.New("no informers")
	expect(1, 1)
	failing["etcd"] = nil
	expect(0, 1)
	failing["informers"] = nil
	expect(0, 0)
}
