// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package quickmetrics

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/version" // the version
)

var tests = metrics.NewCounterVec(&metrics.CounterOpts{Name: "tripod_quick_tests_total", Help: "Tests."}, []string{"of"})

func init() { MustRegister(tests) }

func answer(handler http.Handler, method string, wanted ...string) string {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, "/metrics?"+url.Values{"name[]": wanted}.Encode(), http.NoBody))
	return w.Body.String()
}

// only returns some metrics of a text. Kubernetes 1.36 has a handler that does not select.
func only(text string, wanted []string) (some string) {
	for _, family := range strings.SplitAfter(strings.ReplaceAll(text, "# HELP ", "\x00# HELP "), "\x00") {
		family = strings.TrimSuffix(family, "\x00")
		if words := strings.Fields(family); len(words) > 2 && slices.Contains(wanted, words[2]) {
			some += family
		}
	}
	return some
}

// changing are values that differ from one answer to the next.
var changing = regexp.MustCompile(`(?m)^(process_cpu_seconds_total|process_resident_memory_bytes) .*$`)

func TestAnswersAreThoseOfAllMetrics(t *testing.T) {
	tests.Reset()
	tests.WithLabelValues("answers").Inc()
	all := legacyregistry.Handler()
	quick := Wrap(http.NotFoundHandler())
	for _, wanted := range [][]string{
		{"tripod_quick_tests_total"}, {build}, {"process_start_time_seconds", build, "tripod_quick_tests_total"},
		{"process_cpu_seconds_total", "process_resident_memory_bytes"},
	} {
		want := changing.ReplaceAllString(only(answer(all, http.MethodGet, wanted...), wanted), "$1")
		assert.Len(t, regexp.MustCompile(`(?m)^# TYPE `).FindAllString(want, -1), len(wanted))
		assert.Equal(t, want, changing.ReplaceAllString(answer(quick, http.MethodGet, wanted...), "$1"))
	}
	tests.WithLabelValues("answers").Inc()
	assert.Contains(t, answer(quick, http.MethodGet, "tripod_quick_tests_total"), `{of="answers"} 2`)
}

func TestOtherRequestsAreForAllMetrics(t *testing.T) {
	handler := Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("all")) }))
	assert.Equal(t, "all", answer(handler, http.MethodGet))
	assert.Equal(t, "all", answer(handler, http.MethodGet, "apiserver_request_total"))
	assert.Equal(t, "all", answer(handler, http.MethodGet, build, "apiserver_request_total"))
	assert.Equal(t, "all", answer(handler, http.MethodDelete, build), "which resets metrics")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/slis?name[]="+build, http.NoBody))
	assert.Equal(t, "all", w.Body.String())
	assert.False(t, strings.HasPrefix(answer(handler, http.MethodGet, build), "all"))
}

func BenchmarkAnswer(b *testing.B) {
	for name, handler := range map[string]http.Handler{"quick": Wrap(http.NotFoundHandler()), "all": legacyregistry.Handler()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				answer(handler, http.MethodGet, "tripod_quick_tests_total", build)
			}
		})
	}
}
