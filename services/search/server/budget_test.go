// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// large is a change of a deployment of some bytes.
func large(name string, bytes int) store.Change {
	return change("big", name, "1", map[string]string{"x": strings.Repeat("x", bytes/2)}) // the value is in the spec, too
}

// newLarge returns a handler with small bounds: 100 kB for all answers, pages of 10 kB, and ten objects of 4 kB in a namespace of their own.
func newLarge(t *testing.T) (*Handler, *store.Store, func(...store.Change)) {
	s, write := opened(t)
	for i := range 10 {
		write(large(fmt.Sprint("l", i), 4000))
	}
	h := NewHandler(s, nil, nil)
	h.budget = newBudget(100_000)
	h.budget.page, h.budget.patience = 10_000, 50*time.Millisecond
	return h, s, write
}

const largePath = "resources/apis/apps/v1/namespaces/big/deployments"

// pagesOf returns the names of all pages of a list, and the sizes of the pages.
func pagesOf(t *testing.T, h *Handler, parameters string) (all []string, sizes []int) {
	next := ""
	for {
		answer, _ := ask(t, h, http.MethodGet, largePath+parameters+next, "")
		names, list := namesIn(t, answer)
		if list.RemainingItemCount != nil {
			assert.EqualValues(t, 10-len(all)-len(names), *list.RemainingItemCount)
		}
		all, sizes = append(all, names...), append(sizes, len(names))
		if list.Continue == "" {
			return all, sizes
		}
		require.Less(t, len(sizes), 20)
		next = "&continue=" + list.Continue
	}
}

func TestAPageEndsWithItsSize(t *testing.T) {
	h, s, write := newLarge(t)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint("east/l", i))
	}
	for _, parameters := range []string{"?limit=500", "?withContinue=true", "?resourceVersion=0&limit=500", "?limit=500&orderby=name"} {
		all, sizes := pagesOf(t, h, parameters)
		assert.Equal(t, want, all, parameters)
		assert.Equal(t, []int{3, 3, 3, 1}, sizes, parameters)
	}
	assert.Zero(t, h.budget.used)
	revision, err := s.Revision(t.Context())
	require.NoError(t, err)
	for i := range 10 { // each state is one of the past now
		write(large(fmt.Sprint("l", i), 6000))
	}
	all, sizes := pagesOf(t, h, fmt.Sprintf("?limit=500&at=%d", revision))
	assert.Equal(t, want, all)
	assert.Equal(t, []int{3, 3, 3, 1}, sizes)
	all, sizes = pagesOf(t, h, fmt.Sprintf("?limit=500&orderby=name&at=%d", revision))
	assert.Equal(t, want, all)
	assert.Equal(t, []int{3, 3, 3, 1}, sizes)
	assert.Zero(t, h.budget.used)
	assert.Empty(t, h.budget.users)
}

func TestAnAnswerThatIsTooLargeIsRefused(t *testing.T) {
	h, _, _ := newLarge(t)
	for _, accept := range []string{"", "application/yaml", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
		h.budget.largest = 30_000
		answer, _ := ask(t, h, http.MethodGet, largePath, accept)
		assert.Equal(t, http.StatusRequestEntityTooLarge, answer.Code, accept)
		assert.Contains(t, answer.Body.String(), "ask for pages")
		h.budget.largest = 1 << 20
		h.budget.max = 1 << 20
		answer, _ = ask(t, h, http.MethodGet, largePath, accept)
		assert.Equal(t, http.StatusOK, answer.Code, accept)
		assert.Zero(t, h.budget.used)
	}
}

func TestAnswersShareMemory(t *testing.T) {
	h, _, _ := newLarge(t)
	other := h.budget.hold(t.Context(), 1)
	other.user = "other"
	require.NoError(t, other.charge(60_000))
	require.Error(t, other.charge(30_000), "a user gets two thirds")
	answer, _ := ask(t, h, http.MethodGet, largePath, "")
	assert.Equal(t, http.StatusTooManyRequests, answer.Code)
	assert.Equal(t, "1", answer.Header().Get("Retry-After"))
	assert.EqualValues(t, 60_000, h.budget.used)
	h.budget.patience = time.Minute
	released := make(chan struct{})
	go func() {
		defer close(released)
		other.end()
	}()
	answer, _ = ask(t, h, http.MethodGet, largePath, "")
	assert.Equal(t, http.StatusOK, answer.Code)
	<-released
	require.Error(t, other.charge(1))
	assert.Zero(t, h.budget.used)
}

func TestAWatchBeginsWithoutAllObjectsInMemory(t *testing.T) {
	h, _, write := newLarge(t)
	h.budget.max, h.budget.largest = 20_000, 20_000 // less than half of the objects
	next := open(t, serverOf(t, h)+largePath+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "")
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("ADDED l%d %d", i, 11+i))
	}
	assert.Equal(t, append(want, "BOOKMARK  20"), take(t, next, 11))
	h.budget.mu.Lock()
	assert.Zero(t, h.budget.used)
	h.budget.mu.Unlock()
	write(large("l10", 10))
	assert.Equal(t, []string{"ADDED l10 21"}, take(t, next, 1))
	text, err := json.Marshal(h.budget.users)
	require.NoError(t, err)
	assert.JSONEq(t, "{}", string(text))
}
