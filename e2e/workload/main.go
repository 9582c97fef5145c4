// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command workload is the program that the end-to-end tests run in pods. It is a server, a client that sends requests without end, and a
// few commands for containers without a shell:
//
//	workload serve               answers each request with its host name, and logs a line twice a second
//	workload probe URL           requests URL again and again over new connections, and serves the outcome as JSON
//	workload get URL             requests URL once and prints the body
//	workload judge               is a webhook that forbids every object, and answers other requests as serve does
//	workload api PATH            requests PATH from the API server as its ServiceAccount and prints the body
//	workload cat                 copies its input to its output
//	workload fail CODE           prints a line to stderr and exits with CODE
//	workload -v                  prints a version, as the image pause does, which kubeadm runs to try a cluster
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	listen = ":8080"
	// requestTimeout leaves time for a second DNS query: Go's resolver waits 5 s for the answer to the first, and a busy node loses packets.
	requestTimeout = 12 * time.Second
	probeInterval  = 100 * time.Millisecond
	logInterval    = 500 * time.Millisecond
	maxReview      = 4 << 20
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	servingCerts   = "/var/run/secrets/serving"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(code)
}

// run runs a command and returns the exit code.
func run(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("no command given")
	}
	var err error
	switch command, rest := args[0], args[1:]; {
	case command == "serve":
		err = serve(ctx, http.HandlerFunc(greet), logLines)
	case command == "judge":
		err = serve(ctx, http.HandlerFunc(judge), func(context.Context) {})
	case command == "-v":
		_, err = fmt.Println("workload")
	case command == "cat":
		_, err = io.Copy(os.Stdout, os.Stdin)
	case len(rest) != 1:
		return 2, fmt.Errorf("%s takes one argument", command)
	case command == "probe":
		p := &prober{url: rest[0]}
		err = serve(ctx, p, p.ask)
	case command == "get":
		err = show(ctx, http.DefaultClient, rest[0], "")
	case command == "api":
		err = askAPI(ctx, rest[0])
	case command == "fail":
		code, parseErr := strconv.Atoi(rest[0])
		return code, errors.Join(errors.New("failing as asked"), parseErr)
	default:
		return 2, fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// serve serves requests until ctx ends, with TLS if the pod has a certificate. Meanwhile it does other work in the background.
func serve(ctx context.Context, handler http.Handler, work func(context.Context)) error {
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: requestTimeout}
	var beside sync.WaitGroup
	beside.Go(func() { work(ctx) })
	beside.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	listen := server.ListenAndServe
	if _, err := os.Stat(servingCerts); err == nil {
		listen = func() error {
			return server.ListenAndServeTLS(filepath.Join(servingCerts, "tls.crt"), filepath.Join(servingCerts, "tls.key"))
		}
	}
	err := listen()
	beside.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func greet(w http.ResponseWriter, _ *http.Request) {
	host, _ := os.Hostname()
	_, _ = fmt.Fprintln(w, host)
}

// judge is a validating webhook.
func judge(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(io.LimitReader(r.Body, maxReview)).Decode(&review) != nil {
		greet(w, r)
		return
	}
	host, _ := os.Hostname()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": review.APIVersion, "kind": review.Kind,
		"response": map[string]any{"uid": review.Request.UID, "allowed": false, "status": map[string]any{"message": "forbidden by " + host}},
	})
}

func logLines(ctx context.Context) {
	every(ctx, logInterval, func(i int) { fmt.Println("line", i) })
}

// every calls f repeatedly until ctx ends.
func every(ctx context.Context, interval time.Duration, f func(int)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		f(i)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// prober counts its requests and failures.
type prober struct {
	url string

	mu    sync.Mutex
	count outcome
}

// outcome is the JSON that a prober serves.
type outcome struct {
	Requests  int    `json:"requests"`
	Failures  int    `json:"failures"`
	LastError string `json:"lastError,omitempty"`
}

func (p *prober) ask(ctx context.Context) {
	client := &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
	}
	every(ctx, probeInterval, func(int) {
		_, err := fetch(ctx, client, p.url, "")
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count.Requests++
		if err != nil {
			p.count.Failures++
			p.count.LastError = err.Error()
			fmt.Println(time.Now().Format(time.RFC3339Nano), err)
		}
	})
}

func (p *prober) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = json.NewEncoder(w).Encode(p.count)
}

// askAPI sends a request to the API server as the pod's ServiceAccount.
func askAPI(ctx context.Context, path string) error {
	token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	return show(ctx, client, "https://kubernetes.default.svc"+path, string(token))
}

func show(ctx context.Context, client *http.Client, url, token string) error {
	body, err := fetch(ctx, client, url, token)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(body)
	return err
}

// fetch returns the body of a response with status 200. Any other status is an error.
func fetch(ctx context.Context, client *http.Client, url, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}
