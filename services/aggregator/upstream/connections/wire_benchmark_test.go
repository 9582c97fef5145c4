// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tripod-k8s/tripod/base/certs"
)

// wireServer makes the test binary the server process of BenchmarkWire. Its value is the directory of the server's certificates.
const wireServer = "TRIPOD_WIRE_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(wireServer); dir != "" {
		if err := serveWire(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveWire answers with as many bytes as the request asks for, until its standard input ends. It has the settings of a generic API server
// (k8s.io/apiserver/pkg/server/secure_serving.go).
func serveWire(dir string) error {
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(store.CertFile("server"), store.KeyFile("server"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	content := bytes.Repeat([]byte("x"), 4<<20)
	mux := http.NewServeMux()
	mux.HandleFunc("/cpu", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, int64(cpuTime())) })
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // a client that is gone needs no answer
		size, _ := strconv.Atoi(req.URL.Query().Get("size"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(content[:size])
	})
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}}
	const streams, body = 100, 256 << 10
	settings := &http2.Server{
		MaxConcurrentStreams: streams, MaxUploadBufferPerStream: body, MaxReadFrameSize: body, MaxUploadBufferPerConnection: streams * body,
	}
	if err := http2.ConfigureServer(server, settings); err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return server.ServeTLS(listener, "", "")
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkWire compares the protocols between the aggregator and a backend. It measures the processor time of short requests over TLS between two
// processes: of both together, and of the client alone.
func BenchmarkWire(b *testing.B) {
	dir := b.TempDir()
	store, err := certs.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	ca, err := store.Authority("ca", "ca")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := ca.Ensure("server", certs.Leaf{CommonName: "server", DNSNames: []string{"server"}, Server: true}); err != nil {
		b.Fatal(err)
	}
	address := startWire(b, dir)
	pem, err := os.ReadFile(ca.File())
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := func(protocol string) *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: "server", NextProtos: []string{protocol}}
	}
	for _, load := range []struct {
		name       string
		method     string
		up, down   int
		concurrent int
	}{
		{"get=4KiB/clients=1", http.MethodGet, 0, 4 << 10, 1},
		{"get=4KiB/clients=16", http.MethodGet, 0, 4 << 10, 16},
		{"get=4KiB/clients=64", http.MethodGet, 0, 4 << 10, 64},
		{"get=1MiB/clients=4", http.MethodGet, 0, 1 << 20, 4},
		{"put=4KiB/clients=16", http.MethodPut, 4 << 10, 4 << 10, 16},
	} {
		for _, protocol := range []struct {
			name      string
			transport http.RoundTripper
		}{
			{"h1", &http.Transport{TLSClientConfig: config("http/1.1"), MaxIdleConnsPerHost: 100, DisableCompression: true}},
			{"h2", &http2.Transport{TLSClientConfig: config("h2"), DisableCompression: true}},
			{"h2-large-frames", &http2.Transport{TLSClientConfig: config("h2"), DisableCompression: true, MaxReadFrameSize: maxFrame}},
		} {
			b.Run(load.name+"/"+protocol.name, func(b *testing.B) {
				benchmarkWire(b, protocol.transport, "https://"+address, load.method, load.up, load.down, load.concurrent)
			})
		}
	}
}

func benchmarkWire(b *testing.B, transport http.RoundTripper, url, method string, up, down, concurrent int) {
	content := bytes.Repeat([]byte("x"), up)
	do := func(path string) ([]byte, error) {
		var body io.Reader
		if up > 0 {
			body = bytes.NewReader(content)
		}
		req, err := http.NewRequestWithContext(b.Context(), method, url+path, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		req.Header.Set("User-Agent", "kubelet/v1.36.3 (linux/amd64) kubernetes/abcdef0")
		req.Header.Set("Tripod-Envelope", "CkMKMnN5c3RlbTpzZXJ2aWNlYWNjb3VudDprdWJlLXN5c3RlbTpkZXBsb3ltZW50LWNvbnRyb2xsZXISDXN5c3RlbTpub2Rlcw")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if path == "/cpu" {
			return io.ReadAll(resp.Body)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return nil, err
	}
	serverTime := func() time.Duration {
		answer, err := do("/cpu")
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseInt(string(answer), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(n)
	}
	path := "/api/v1/namespaces/kube-system/pods/coredns-668d6bf9bc-abcde?size=" + strconv.Itoa(down)
	var clients sync.WaitGroup
	var left atomic.Int64
	run := func(n int) {
		left.Store(int64(n))
		for range concurrent {
			clients.Go(func() {
				for left.Add(-1) >= 0 {
					if _, err := do(path); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
	}
	run(4 * concurrent) // makes connections and grows buffers
	client, server := cpuTime(), serverTime()
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	client, server = cpuTime()-client, serverTime()-server
	perRequest := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(perRequest(client+server), "cpu-us/op")
	b.ReportMetric(perRequest(client), "client-cpu-us/op")
}

// startWire starts the server process and returns its address.
func startWire(b *testing.B, dir string) string {
	b.Helper()
	executable, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(executable)
	command.Env = append(os.Environ(), wireServer+"="+dir)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close() // this ends the process
		_ = command.Wait()
	})
	var address string
	if _, err := fmt.Fscanln(stdout, &address); err != nil {
		b.Fatal(err)
	}
	return address
}
