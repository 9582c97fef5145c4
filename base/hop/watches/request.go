// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

// Offer adds to the headers of a watch that the aggregator can share.
func Offer(header http.Header) { header[envelope.WatchesHeader] = []string{offer} }

// Join adds to the headers of a watch that it is to join a session.
func (b *Body) Join(header http.Header, session string) {
	header[envelope.WatchesHeader] = []string{b.Value(session)}
}

// IsOffered reports whether a replica says in an answer that it can share.
func IsOffered(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && resp.Header.Get(envelope.WatchesHeader) == offer
}

// NewRequest returns the request that opens a session. The body carries credits.
func NewRequest(credits io.ReadCloser) *http.Request {
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/tripod/watches"}, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{envelope.WatchesHeader: {open}}, Body: credits, ContentLength: -1,
	}
}

// NameOf returns the name of the session that an answer has opened.
func NameOf(resp *http.Response) (string, error) {
	name := resp.Header.Get(envelope.WatchesHeader)
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the replica answers with the status %d", resp.StatusCode)
	case resp.ProtoMajor != 2:
		return "", errors.New("the replica does not answer over HTTP/2")
	case name == "" || len(name) > maxName:
		return "", errors.New("the replica names no session")
	}
	return name, nil
}

// maxName is the length of the longest name of a session in bytes.
const maxName = 64
