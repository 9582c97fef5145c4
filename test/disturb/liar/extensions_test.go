// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package liar

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// lie is what a false replica of extensions claims and answers.
type lie struct {
	backendv1.UnimplementedBackendServer
	// claims are the group-versions in its feed and in its discovery document.
	claims []schema.GroupVersion
	// answer answers what is neither a probe nor discovery. It may be nil.
	answer http.HandlerFunc
	// status is that of all answers but to probes. It may be one that HTTP does not have.
	status string
	// asked counts these requests.
	asked atomic.Int64
	// frames speaks in HTTP/2 in the place of a server. It may be nil.
	frames func(net.Conn)
	// endless has the documents that the aggregator itself asks for have no end, and counts them.
	endless   bool
	documents atomic.Int64
}

// serve has the lie served in the place of extensions-1, until the test ends.
func (l *lie) serve(t *testing.T) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(fleet.PKI, "extensions.crt"), filepath.Join(fleet.PKI, "extensions.key"))
	require.NoError(t, err)
	listen := func(address string) net.Listener {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		return listener
	}
	replica := fleet.Replica("extensions-1")
	feed := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})))
	backendv1.RegisterBackendServer(feed, l)
	feedListener := listen(replica.GRPCAddress)
	go func() { _ = feed.Serve(feedListener) }() // until Stop
	t.Cleanup(feed.Stop)

	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}}
	server := &http.Server{Handler: l, TLSConfig: config, ReadHeaderTimeout: time.Minute}
	if l.status != "" {
		config.NextProtos, l.frames = []string{"h2"}, l.answerFrames
	}
	if l.frames != nil {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				if l.status == "" {
					l.asked.Add(1)
				}
				l.frames(conn)
			},
		}
	}
	listener := listen(strings.TrimPrefix(replica.URL, "https://"))
	go func() { _ = server.ServeTLS(listener, "", "") }() // until Close
	t.Cleanup(func() { _ = server.Close() })              // nothing is lost
}

// Watch is the feed.
func (l *lie) Watch(_ *backendv1.WatchRequest, stream grpc.ServerStreamingServer[backendv1.WatchResponse]) error {
	catalog := &backendv1.Catalog{GroupVersions: []*backendv1.GroupVersion{{Group: "apiextensions.k8s.io", Version: "v1"}}}
	for _, gv := range l.claims {
		catalog.GroupVersions = append(catalog.GroupVersions, &backendv1.GroupVersion{Group: gv.Group, Version: gv.Version})
	}
	message := &backendv1.WatchResponse{Run: "lie", Phase: backendv1.WatchResponse_PHASE_SERVING, Catalog: catalog}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
		message = &backendv1.WatchResponse{Run: "lie", Phase: backendv1.WatchResponse_PHASE_SERVING}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(time.Second): // a sign of life
		}
	}
}

func (l *lie) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch path := req.URL.Path; {
	case path == "/readyz":
	case l.endless && (path == "/apis" || path == "/openapi/v2" || path == "/openapi/v3"):
		l.documents.Add(1)
		blanks := bytes.Repeat([]byte(" "), 1<<20)
		for {
			if _, err := w.Write(blanks); err != nil {
				return // the client reads no more
			}
		}
	case path == "/", path == "/openapi/v2", path == "/openapi/v3": // the aggregator itself asks
		w.WriteHeader(http.StatusNotFound)
	case path == "/apis":
		list := apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
		for _, gv := range l.claims {
			list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{
				ObjectMeta: metav1.ObjectMeta{Name: gv.Group},
				Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: gv.Version, Resources: []apidiscoveryv2.APIResourceDiscovery{{
					Resource: "lies", ResponseKind: &metav1.GroupVersionKind{Kind: "Lie"}, Scope: apidiscoveryv2.ScopeNamespace,
				}}}},
			})
		}
		_ = json.NewEncoder(w).Encode(list) // the aggregator checks what it gets
	default:
		l.asked.Add(1)
		if l.answer != nil {
			l.answer(w, req)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"name":"lie"}}]}`) // the client checks what it gets
	}
}

// answerFrames answers over HTTP/2 with the status of the lie, which net/http would not send.
func (l *lie) answerFrames(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = framer.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			status := "200"
			if frame.PseudoValue("path") != "/readyz" {
				status = l.status
				l.asked.Add(1)
			}
			var block bytes.Buffer
			// A buffer takes all that is written.
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		}
		if err != nil {
			return
		}
	}
}
