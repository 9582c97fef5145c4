// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Lie is one way not to be an API server. One of its functions is set.
type Lie struct {
	// Name is that of the lie, which fits into the name of a cluster.
	Name string
	// Answer answers a request. It returns false if it leaves that to the honest server.
	Answer func(http.ResponseWriter, *Request) bool
	// Redirect returns where a request is sent, or nothing. thief is a server with a certificate of the same CA, clear one without TLS.
	Redirect func(r *Request, thief, clear string) (code int, location string)
	// Frames speaks with a client in HTTP/2 until the connection ends.
	Frames func(net.Conn)
	// Shows is what search shows.
	Shows Shows
}

// Shows is what search shows of a cluster that lies. Its answers about other clusters are right in any case.
type Shows struct {
	// Copied is true if search has the honest objects of the cluster.
	Copied bool
	// Complains is true if the status of the PediaCluster has an error.
	Complains bool
	// Reports is a regular expression of what the status has, "TYPE=STATUS REASON: MESSAGE" of a condition or "RESOURCE REASON: MESSAGE" of a
	// resource.
	Reports string
}

// Token is the credential that a client sends to the server.
const Token = "token-of-a-member"

// Server is an API server that lies.
type Server struct {
	lie    Lie
	server *httptest.Server
	// thief and clear are where redirects lead.
	thief, clear *httptest.Server
	asked        atomic.Int64
	connections  atomic.Int64
	received     atomic.Int64
	sent         atomic.Int64
	stolen       atomic.Bool
}

// Start starts a server on the loopback address. It ends with the test.
func Start(t testing.TB, lie Lie) *Server {
	t.Helper()
	return StartOn(t, "127.0.0.1", lie)
}

// StartOn starts a server on an address of this machine.
func StartOn(t testing.TB, address string, lie Lie) *Server {
	t.Helper()
	s := &Server{lie: lie}
	loot := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.Header.Get("Authorization"), Token) {
			s.stolen.Store(true)
		}
		s.honest(w, read(req))
	})
	s.thief, s.clear = httptest.NewTLSServer(loot), httptest.NewServer(loot)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	require.NoError(t, s.server.Listener.Close())
	var err error
	s.server.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	s.server.Listener = countingListener{s.server.Listener, s}
	s.server.EnableHTTP2 = true
	if lie.Frames != nil { // in HTTP/1.1 it is honest
		s.server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
		s.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				s.asked.Add(1)
				s.connections.Add(1)
				lie.Frames(counting{conn, &s.received, new(atomic.Int64)})
			},
		}
	}
	s.server.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Close ends all connections.
func (s *Server) Close() {
	for _, server := range []*httptest.Server{s.server, s.thief, s.clear} {
		server.CloseClientConnections()
		server.Close()
	}
}

// URL is the address of the server.
func (s *Server) URL() string { return s.server.URL }

// Asked returns how many requests, or connections of a lie in frames, have come.
func (s *Server) Asked() int64 { return s.asked.Load() }

// Connections returns how many connections got a lie in frames.
func (s *Server) Connections() int64 { return s.connections.Load() }

// Received returns how many bytes clients have sent: those in TLS of a lie in frames, or else all.
func (s *Server) Received() int64 { return s.received.Load() }

// Sent returns how many bytes clients have taken from the server.
func (s *Server) Sent() int64 { return s.sent.Load() }

// SpeaksFrames reports whether the lie is one in frames, below HTTP.
func (s *Server) SpeaksFrames() bool { return s.lie.Frames != nil }

// Stolen reports whether another server has seen the token.
func (s *Server) Stolen() bool { return s.stolen.Load() }

// Kubeconfig returns a kubeconfig with a token for the server.
func (s *Server) Kubeconfig(t testing.TB) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	config.Clusters["hostile"] = &clientcmdapi.Cluster{Server: s.server.URL, CertificateAuthorityData: ca}
	config.AuthInfos["hostile"] = &clientcmdapi.AuthInfo{Token: Token}
	config.Contexts["hostile"] = &clientcmdapi.Context{Cluster: "hostile", AuthInfo: "hostile"}
	config.CurrentContext = "hostile"
	text, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return text
}

func (s *Server) answer(w http.ResponseWriter, req *http.Request) {
	s.asked.Add(1)
	r := read(req)
	if s.lie.Redirect != nil {
		if code, location := s.lie.Redirect(r, s.thief.URL, s.clear.URL); location != "" {
			w.Header().Set("Location", location)
			w.WriteHeader(code)
			return
		}
	}
	if s.lie.Answer == nil || !s.lie.Answer(w, r) {
		s.honest(w, r)
	}
}

// countingListener counts the bytes of all connections of a server.
type countingListener struct {
	net.Listener
	server *Server
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.server.SpeaksFrames() {
		return counting{conn, new(atomic.Int64), &l.server.sent}, nil
	}
	return counting{conn, &l.server.received, &l.server.sent}, nil
}

// counting is a connection that counts bytes.
type counting struct {
	net.Conn
	received, sent *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
