// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestDocumentsAreCopiedOnceForEachVersion(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	kinds, _, err := m.discover(t.Context())
	require.NoError(t, err)
	look := func() (documents []string) {
		require.NoError(t, (&schemas{member: m}).copy(t.Context(), kinds))
		digests, err := s.SchemaDigests(t.Context(), "east")
		require.NoError(t, err)
		for path, digest := range digests {
			compressed, err := s.Schema(t.Context(), digest)
			require.NoError(t, err)
			document, err := streams.Decompress(compressed)
			require.NoError(t, err)
			documents = append(documents, path+" "+string(document))
		}
		return documents
	}
	assert.Empty(t, look(), "a member may have none")
	f.do(func() { f.document = 1 })
	for range 2 {
		assert.Equal(t, []string{`api/v1 {"version": 1}`}, look(), "apps/v1 is not searched")
	}
	assert.Equal(t, 1, f.count("document"))
	f.do(func() { f.document = 2 })
	assert.Equal(t, []string{`api/v1 {"version": 2}`}, look())
	kinds = nil
	assert.Empty(t, look(), "nothing is searched any more")
}

// TestADocumentTakesMemoryUntilItIsWritten has one wait for a slot to write.
func TestADocumentTakesMemoryUntilItIsWritten(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.do(func() { f.document, f.blanks = 1, smallObject })
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	for range writesAtOnce {
		m.limiter.writes <- struct{}{}
	}
	done := make(chan error, 1)
	go func() { done <- (&schemas{member: m}).put(t.Context(), "api/v1", "1") }()
	require.Eventually(t, func() bool { return f.count("document") == 1 && m.limiter.large.count() == 1 }, time.Minute, time.Millisecond)
	select {
	case err := <-done:
		require.Fail(t, "it does not wait", err)
	default:
	}
	assert.Equal(t, 1, m.limiter.large.count())
	<-m.limiter.writes
	require.NoError(t, <-done)
	assert.Zero(t, m.limiter.large.count())
	assert.Zero(t, m.limiter.ownLong.count())
}

// TestDocumentsCountForTheSizeOfACluster has documents that are more than a cluster may have.
func TestDocumentsCountForTheSizeOfACluster(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.do(func() { f.document = 1 })
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, func(l *Limits) { l.Size.Set(1 << 20) })})
	require.NoError(t, err)
	kinds, _, err := m.discover(t.Context())
	require.NoError(t, err)
	noise := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{}).Read(noise) //nolint:errcheck // it never fails
	require.NoError(t, s.PutSchema(t.Context(), "east", "apis/large", "1", noise))

	documents := &schemas{member: m}
	m.usage.sinceMeasured = 1 << 20 // it measures now
	err = documents.copy(t.Context(), kinds)
	require.True(t, isLimit(err), err)
	health, _ := m.Status()
	assert.Equal(t, "OpenAPI documents: the objects and documents of the cluster have more than 1Mi (--member-max-size)", health.Limit)
	room, err := m.usage.room(t.Context(), 1, 1)
	require.Error(t, err)
	assert.Equal(t, store.RoomForNothing, room)

	m.usage.measured = time.Time{} // the large one is not searched, and so it is gone
	m.usage.sinceMeasured = 1 << 20
	documents.next = time.Time{}
	require.NoError(t, documents.copy(t.Context(), kinds))
	health, _ = m.Status()
	assert.Empty(t, health.Limit)
	known, err := s.SchemaDigests(t.Context(), "east")
	require.NoError(t, err)
	assert.Len(t, known, 1)
}

func TestAMemberIsNotAskedForDocumentsAllTheTime(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	documents := &schemas{member: m}
	require.NoError(t, documents.copy(t.Context(), nil))
	f.CloseClientConnections()
	f.Close()
	assert.NoError(t, documents.copy(t.Context(), nil))
}
