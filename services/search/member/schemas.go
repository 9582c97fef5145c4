// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// schemasInterval is how often a member is asked for its OpenAPI documents, and schemasTimeout how long that may take.
	schemasInterval = time.Minute
	schemasTimeout  = time.Minute
	openAPI         = "/openapi/v3"
)

// schemas copies the version of a member, and the OpenAPI documents of the group-versions that are searched, so that clients can explain
// their fields.
type schemas struct {
	member *Member
	next   time.Time
	// full is why a document of this round has no room, or nil.
	full *LimitError
}

// copy copies the documents that have changed, if it is time to look. A member without documents, or with wrong ones, is searched all the
// same.
func (s *schemas) copy(ctx context.Context, kinds []streams.Kind) error {
	if time.Now().Before(s.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, schemasTimeout)
	defer cancel()
	s.next = time.Now().Add(schemasInterval)
	if err := s.member.store.PutVersion(ctx, s.member.name, s.member.versionDocument()); err != nil {
		return err
	}
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	err := s.member.read(ctx, openAPI, "", func(text []byte) error { return decode(text, &index) })
	if apierrors.IsNotFound(err) {
		return nil // Kubernetes before 1.24
	}
	if err != nil {
		return fmt.Errorf("%s: %w", openAPI, err)
	}
	known, err := s.member.store.SchemaVersions(ctx, s.member.name)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	var failed []error
	s.full = nil
	for _, kind := range kinds {
		path := pathOf(kind)
		document, has := index.Paths[path]
		if keep[path] || !has {
			continue
		}
		keep[path] = true
		if version := versionOf(document.ServerRelativeURL); known[path] != version {
			failed = append(failed, s.put(ctx, path, version))
		}
	}
	failed = append(failed, s.member.store.RemoveSchemas(ctx, s.member.name, keep))
	s.member.noteFull(s.full)
	return errors.Join(failed...)
}

// put copies a document, if the cluster does not have too much. Until it is written, it takes memory.
func (s *schemas) put(ctx context.Context, path, version string) error {
	return s.member.read(ctx, openAPI+"/"+path, version, func(document []byte) error {
		if !jsontext.Value(document).IsValid(asSent) {
			return fmt.Errorf("%s/%s is not JSON", openAPI, path)
		}
		if full := s.member.usage.takes(ctx, len(document)); full != nil {
			s.full = full
			return full
		}
		return s.member.limiter.write(ctx, func() error { return s.member.store.PutSchema(ctx, s.member.name, path, version, document) })
	})
}

// read passes on what a member answers at a path.
func (m *Member) read(ctx context.Context, path, hash string, use func(document []byte) error) error {
	request := m.client.Get().AbsPath(path).SetHeader("Accept", "application/json")
	if hash != "" {
		request.Param("hash", hash)
	}
	return m.single(ctx, request, use)
}

// single passes on the answer to a request, as a document that takes memory while it is read and used.
func (m *Member) single(ctx context.Context, request *rest.Request, use func(document []byte) error) error {
	return m.document(ctx, request.DoRaw, use)
}

// document does the same for what sends a request.
func (m *Member) document(ctx context.Context, send func(context.Context) ([]byte, error), use func(document []byte) error) error {
	asking, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	held := &holder{lost: lost}
	defer held.release()
	document, err := send(holding(expecting(asking, single), held))
	if err != nil {
		return err
	}
	return use(document)
}

// noteFull notes why documents have no room, or that they have.
func (m *Member) noteFull(full *LimitError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.documentsFull = ""; full != nil {
		m.documentsFull = "OpenAPI documents: " + full.Error()
	}
}

// pathOf returns the path of the document with a kind.
func pathOf(kind streams.Kind) string {
	if kind.Group == "" {
		return "api/" + kind.Version
	}
	return strings.Join([]string{"apis", kind.Group, kind.Version}, "/")
}

// versionOf returns the hash in the URL of a document, which is another one when the document has changed.
func versionOf(serverRelativeURL string) string {
	at, err := url.Parse(serverRelativeURL)
	if err != nil {
		return serverRelativeURL
	}
	return cmp.Or(at.Query().Get("hash"), serverRelativeURL)
}
