// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEtcdsAreAskedBeforeTheStart(t *testing.T) {
	handler := http.NotFoundHandler()
	plain := httptest.NewServer(handler)
	defer plain.Close()
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	demanding := httptest.NewUnstartedServer(handler)
	demanding.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	demanding.StartTLS()
	defer demanding.Close()
	closing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer closing.Close()
	// As kine does, which serves gRPC and nothing else.
	http2 := httptest.NewUnstartedServer(handler)
	http2.Config.Protocols = &http.Protocols{}
	http2.Config.Protocols.SetUnencryptedHTTP2(true)
	http2.Start()
	defer http2.Close()
	// etcd reports its version over HTTP/1.1 only.
	of := func(version string) string {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.ProtoMajor > 1 {
				http.NotFound(w, req)
				return
			}
			_, _ = io.WriteString(w, version)
		}))
		server.Config.Protocols = &http.Protocols{}
		server.Config.Protocols.SetHTTP1(true)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
	old, supported := of(`{"etcdserver":"3.4.44","etcdcluster":"3.4.0"}`), of(`{"etcdserver":"3.5.0","etcdcluster":"3.5.0","storage":"3.5.0"}`)
	gone := httptest.NewServer(handler)
	gone.Close()

	ca := filepath.Join(t.TempDir(), "ca.crt")
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, bundle, 0o600))
	for _, tc := range []struct {
		name    string
		options Options
		want    string // part of the error, or nothing
	}{
		{name: "only the embedded one"},
		{name: "plain", options: Options{EtcdServers: []string{plain.URL}}},
		{name: "HTTP/2 alone", options: Options{EtcdServers: []string{http2.URL}}},
		{name: "secure", options: Options{EtcdServers: []string{secure.URL}, EtcdCAFile: ca}},
		{name: "one of two is gone", options: Options{EtcdServers: []string{gone.URL, plain.URL}}},
		{name: "a version that Kubernetes supports", options: Options{EtcdServers: []string{supported}}},
		{name: "too old", options: Options{EtcdServers: []string{old, gone.URL}},
			want: old + ": etcd 3.4.44 is too old for this Kubernetes: upgrade it to 3.5.33 or later"},
		{name: "too old, of a partition", options: Options{PartitionEtcdServers: []string{"big=" + old}, Partitions: []string{"big=example.com"}}, want: "etcd 3.4.44 is too old"},
		{name: "gone", options: Options{AggregatorEtcdServers: []string{gone.URL}},
			want: "cannot use the etcd of aggregator: " + gone.URL + ": dial tcp"},
		{name: "unknown authority", options: Options{CoreEtcdServers: []string{secure.URL}}, want: "certificate signed by unknown authority"},
		{name: "wants a certificate", options: Options{EtcdServers: []string{demanding.URL}, EtcdCAFile: ca}, want: "certificate required"},
		{name: "closes the connection", options: Options{EtcdServers: []string{closing.URL}}, want: "closes the connection"},
		{name: "no certificate authority", options: Options{EtcdServers: []string{secure.URL}, EtcdCAFile: ca + ".missing"}, want: "ca.crt.missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkEtcds(t.Context(), &tc.options)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error is %v, want something with %s", err, tc.want)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("error %q has more than one line", err)
			}
		})
	}
}
