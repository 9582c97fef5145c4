// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	s := &Probes{}
	get := func(path string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	expect := func(when string, want map[string]int) {
		t.Helper()
		for path, code := range want {
			if got := get(path); got != code {
				t.Errorf("%s, %s answers %d, want %d", when, path, got, code)
			}
		}
	}
	expect("starting", map[string]int{"/livez": 200, "/readyz": 500, "/healthz": 500, "/": 404, "/api": 404, "/metrics": 404})
	s.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	expect("running", map[string]int{
		"/livez": 418, "/readyz": 418, "/readyz/etcd": 418, "/healthz": 418,
		"/": 404, "/api": 404, "/livezz": 404, "/metrics": 404, "//livez": 404, "/api/../livez": 404,
	})
}

func TestStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	flag := newProbesFlag()
	flag.Address = address
	if _, err := startProbes(&flag, "etcd"); err == nil || !strings.Contains(err.Error(), "--probe-bind-address") {
		t.Errorf("error for a busy port is %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := startProbes(&flag, "etcd"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(body) != "ok" {
		t.Errorf("answer is %d %q", resp.StatusCode, body)
	}
}

func TestNowhere(t *testing.T) {
	flag := newProbesFlag()
	s, err := startProbes(&flag, "etcd")
	if s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	s.Serve(nil)
}
