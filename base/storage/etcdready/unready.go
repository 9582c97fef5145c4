// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdready

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
)

// serveUnready answers on the port of options until stop is called. The listener stays open, in options.
func serveUnready(options *options.SecureServingOptions) (stop func(), err error) {
	var serving *server.SecureServingInfo
	if err := options.ApplyTo(&serving); err != nil {
		return nil, err
	}
	if serving == nil {
		return nil, errors.New("not listening on a secure port")
	}
	listener, ok := serving.Listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("cannot lend a listener of type %T", serving.Listener)
	}
	unready := &http.Server{
		Handler:           http.HandlerFunc(answerUnready),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				certificate, err := tls.X509KeyPair(serving.Cert.CurrentCertKeyContent())
				return &certificate, err
			},
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = unready.ServeTLS(lentListener{listener}, "", "") // always ErrServerClosed: stop is the only end
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if unready.Shutdown(ctx) != nil {
			_ = unready.Close()
		}
		<-done
		_ = listener.SetDeadline(time.Time{})
	}, nil
}

// lentListener is given back instead of being closed: Close only ends a pending Accept.
type lentListener struct {
	*net.TCPListener
}

func (l lentListener) Close() error {
	return l.SetDeadline(time.Unix(1, 0))
}

func answerUnready(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/livez":
		_, _ = io.WriteString(w, "ok")
	case "/readyz", "/healthz":
		// As in generic API servers, the reason is only in the log: clients are not authenticated here.
		http.Error(w, "[-]etcd failed: reason withheld\n"+req.URL.Path[1:]+" check failed", http.StatusInternalServerError)
	default:
		status := metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure,
			Message:  "the server is waiting for etcd",
			Reason:   metav1.StatusReasonServiceUnavailable,
			Details:  &metav1.StatusDetails{RetryAfterSeconds: 1},
			Code:     http.StatusServiceUnavailable,
		}
		body, _ := json.Marshal(status) // cannot fail for a Status
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(body)
	}
}
