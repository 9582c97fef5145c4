// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// endless is a replica whose document does not end, once it lies.
type endless struct {
	replica
	lies atomic.Bool
	// sent is how many bytes of the lie were taken.
	sent atomic.Int64
}

func (e *endless) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !e.lies.Load() {
		e.replica.ServeHTTP(w, req)
		return
	}
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	for {
		n, err := w.Write(blanks)
		e.sent.Add(int64(n))
		if err != nil {
			return // the client reads no more
		}
	}
}

func TestADocumentWithoutAnEndChangesNothing(t *testing.T) {
	r, merged := &endless{}, discoveryendpoint.NewResourceManager("apis")
	r.set(`"1"`, group("example.com", "v1"))
	source := newSourceOf(t, upstream.Extensions, r, merged)
	require.NoError(t, source.fetch(t.Context()))
	r.lies.Store(true)
	require.ErrorContains(t, source.fetch(t.Context()), "larger than")
	assert.Equal(t, []string{"example.com/v1"}, slices.Collect(maps.Keys(list(t, merged))))
	assert.Less(t, r.sent.Load(), int64(2*maxDocument), "bytes were taken")
	r.lies.Store(false)
	r.set(`"2"`, group("example.com", "v2"))
	require.NoError(t, source.fetch(t.Context()))
	assert.Equal(t, []string{"example.com/v2"}, slices.Collect(maps.Keys(list(t, merged))))
}

// TestADocumentOfManyPartsIsNotDecoded has documents that are small as text, and large in memory.
func TestADocumentOfManyPartsIsNotDecoded(t *testing.T) {
	many := func(part string) string { return part + strings.Repeat(","+part, 1_000_000) }
	document := func(items string) string { return `{"kind":"APIGroupDiscoveryList","items":[` + items + `]}` }
	for name, text := range map[string]string{
		"groups":           document(many(`{}`)),
		"nothing":          document(many(`null`)),
		"other than group": document(many(`""`)),
		"versions":         document(`{"versions":[` + many(`{}`) + `]}`),
		"labels":           document(`{"metadata":{"labels":{` + many(`"a":""`) + `}}}`),
		"unknown fields":   document(`{"x":[` + many(`0`) + `]}`),
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, len(text), maxDocument)
			_, err := decode(strings.NewReader(text))
			assert.ErrorContains(t, err, "it has more than")
		})
	}
	list, err := decode(strings.NewReader(document(`{}` + strings.Repeat(`,{}`, 100_000))))
	require.NoError(t, err)
	assert.Len(t, list.Items, 100_001)
}
