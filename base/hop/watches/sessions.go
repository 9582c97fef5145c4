// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

const (
	// offer asks whether the other end can share, and says so.
	offer = "?"
	// open asks for a session.
	open = "open"
	// maxSessions limits how many sessions a server has. An aggregator has one, and for a while another one after each renewal of its
	// certificate. A session keeps 6 MiB at most, so that all together keep 384 MiB. Watches of more aggregators share nothing.
	maxSessions = 64
	// lastFrames is how long the last frames of a session may take.
	lastFrames = time.Second
)

// Sessions are those of a server with aggregators.
type Sessions struct {
	// Ended is closed when all sessions are to end. It may be nil.
	Ended <-chan struct{}

	mu    sync.Mutex
	named map[string]*owned
}

// owned is a session and the certificate (DER) of the aggregator that opened it.
type owned struct {
	*sender
	certificate []byte
}

// IsOpen reports whether the header of a request asks for a session.
func IsOpen(value string) bool { return value == open }

// Open serves a session until it ends. The caller has made sure that the aggregator sends the request in its own name.
func (s *Sessions) Open(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost || req.ProtoMajor != 2 {
		http.Error(w, "a session for watches needs POST over HTTP/2", http.StatusBadRequest)
		return
	}
	session := newSender(&standard)
	defer session.close()
	name := rand.Text()
	if !s.add(name, &owned{session, certificateOf(req)}) {
		http.Error(w, "there are too many sessions for watches", http.StatusServiceUnavailable)
		return
	}
	defer s.remove(name)

	control := http.NewResponseController(w)
	w.Header()[envelope.WatchesHeader] = []string{name}
	w.WriteHeader(http.StatusOK)
	if err := control.Flush(); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(req.Context())
	var beside sync.WaitGroup // net/http allows nothing of this after the return
	defer beside.Wait()
	defer req.Body.Close() //nolint:errcheck // returns none
	defer cancel()
	beside.Go(func() {
		select {
		case <-s.Ended:
			cancel()
		case <-ctx.Done():
		}
		_ = control.SetWriteDeadline(time.Now().Add(lastFrames)) // a peer that does not read must not hold up the end of the session
	})
	beside.Go(func() {
		defer cancel()
		if err := session.receiveCredits(bufio.NewReaderSize(req.Body, 1<<10)); !errors.Is(err, io.EOF) && ctx.Err() == nil {
			klog.InfoS("A session for watches ends", "aggregator", req.RemoteAddr, "err", err)
		}
	})
	_ = session.run(ctx.Done(), func(frames []byte) error { // it fails if the aggregator is gone
		if _, err := w.Write(frames); err != nil {
			return err
		}
		return control.Flush()
	})
}

func (s *Sessions) add(name string, o *owned) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.named) >= maxSessions {
		return false
	}
	if s.named == nil {
		s.named = map[string]*owned{}
	}
	s.named[name] = o
	return true
}

func (s *Sessions) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.named, name)
}

// Join returns the writer with which a request of the aggregator is served that has this header. The caller calls finish when the handler
// has returned.
func (s *Sessions) Join(w http.ResponseWriter, req *http.Request, value string) (writer http.ResponseWriter, finish func()) {
	own, ok := w.(answer)
	if !ok || req.ProtoMajor != 2 || req.Method != http.MethodGet {
		return w, func() {}
	}
	joining := s.find(own, req, value)
	return joining, joining.finish
}

// find returns a writer for the session that a header names. If there is no such session, the writer only says that this server can share.
func (s *Sessions) find(w answer, req *http.Request, value string) *writer {
	joining := &writer{answer: w, ctx: req.Context()}
	name, number, found := strings.Cut(value, "/")
	if !found {
		return joining
	}
	watch, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return joining
	}
	s.mu.Lock()
	o := s.named[name]
	s.mu.Unlock()
	if o != nil && bytes.Equal(o.certificate, certificateOf(req)) {
		joining.value, joining.session, joining.watch = value, o.sender, watch
	}
	return joining
}

func certificateOf(req *http.Request) []byte {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil
	}
	return req.TLS.PeerCertificates[0].Raw
}
