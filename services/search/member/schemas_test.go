// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
)

func TestDocumentsAreCopiedOnceForEachVersion(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Shared{Store: s, Door: newDoor(t, nil)})
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
			document, err := store.Decompress(compressed)
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

func TestAMemberIsNotAskedForDocumentsAllTheTime(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Shared{Store: s, Door: newDoor(t, nil)})
	require.NoError(t, err)
	documents := &schemas{member: m}
	require.NoError(t, documents.copy(t.Context(), nil))
	f.CloseClientConnections()
	f.Close()
	assert.NoError(t, documents.copy(t.Context(), nil))
}
