// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// large is a change of a deployment of some bytes.
func large(name string, bytes int) store.Change {
	return change("big", name, "1", map[string]string{"x": strings.Repeat("x", bytes/2)}) // the value is in the spec, too
}

// newLarge returns a handler with small bounds: 100 kB for all answers, pages of 10 kB, and ten objects of 4 kB in a namespace of their
// own.
func newLarge(t *testing.T) (*Handler, *store.Store, func(...store.Change)) {
	s, write := opened(t)
	for i := range 10 {
		write(large(fmt.Sprint("l", i), 4000))
	}
	h := NewHandler(s, nil, nil)
	h.budget = newBudget(100_000)
	h.budget.page, h.budget.waitTimeout = 10_000, 50*time.Millisecond
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
	other := h.budget.hold(t.Context())
	other.user = "other"
	require.NoError(t, other.charge(50_000))
	require.Error(t, other.charge(1), "a user gets half")
	answer, _ := ask(t, h, http.MethodGet, largePath, "")
	assert.Equal(t, http.StatusTooManyRequests, answer.Code)
	assert.Equal(t, "1", answer.Header().Get("Retry-After"))
	assert.EqualValues(t, 50_000, h.budget.used)
	h.budget.waitTimeout = time.Minute
	released := make(chan struct{})
	go func() {
		defer close(released)
		other.release()
	}()
	answer, _ = ask(t, h, http.MethodGet, largePath, "")
	assert.Equal(t, http.StatusOK, answer.Code)
	<-released
	assert.Zero(t, h.budget.used)
}

// TestSearchesThatWaitForMemoryLeaveTheDatabaseToOthers has users whose searches wait for memory, and one whose search needs none.
func TestSearchesThatWaitForMemoryLeaveTheDatabaseToOthers(t *testing.T) {
	h, _, _ := newLarge(t)
	h.budget.waitTimeout = time.Minute
	all := h.budget.hold(t.Context())
	require.NoError(t, all.charge(50_000))
	more := h.budget.hold(asUser(t, "other"))
	more.add(50_000)
	var waiting []func() int
	for i := range 4 {
		for range searchesOfUser {
			waiting = append(waiting, later(h, largePath+"?limit=1", fmt.Sprint("mallory-", i)))
		}
	}
	require.Eventually(t, func() bool {
		h.searches.mu.Lock()
		defer h.searches.mu.Unlock()
		n := 0
		for _, q := range h.searches.users {
			n += q.in
		}
		return n == len(waiting)
	}, time.Minute, time.Millisecond)
	for range 30 {
		assert.Equal(t, http.StatusOK, later(h, "resources/apis/apps/v1/namespaces/none/deployments", "alice")())
	}
	more.release()
	all.release()
	for _, code := range waiting {
		assert.Equal(t, http.StatusOK, code())
	}
	assert.Zero(t, h.budget.used)
	assert.Empty(t, h.budget.users)
}

// later asks for something as a user who may see everything. The result returns the code of the answer.
func later(h http.Handler, path, name string) (code func() int) {
	answered := make(chan int, 1)
	go func() {
		answer := &counted{header: http.Header{}}
		req := httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+path, nil)
		reader := &user.DefaultInfo{Name: name}
		ctx := withRequestState(request.WithUser(req.Context(), reader))
		storeAccessSet(ctx, rights.Unlimited(reader))
		h.ServeHTTP(answer, classified(req.WithContext(ctx)))
		answered <- answer.code
	}()
	return func() int { return <-answered }
}

// TestASearchRunsAgainWithTheMemoryThatItHasAskedFor has a search that gets more memory each time that it runs.
func TestASearchRunsAgainWithTheMemoryThatItHasAskedFor(t *testing.T) {
	b := newBudget(1 << 20)
	b.waitTimeout = time.Minute
	others := b.hold(asUser(t, "other"))
	others.add(1<<20 - 1)
	h, runs := b.hold(asUser(t, "reader")), 0
	require.NoError(t, h.search(func() error {
		runs++
		for i := range 100 {
			if err := h.chargeNow(1 << 10); err != nil {
				others.add(-(1 << 16)) // of which a third is for others
				return err
			}
			assert.EqualValues(t, (i+1)<<10, h.charged)
		}
		return nil
	}))
	assert.Greater(t, runs, 2)
	assert.LessOrEqual(t, runs, mostRuns)
	assert.EqualValues(t, 100<<10, h.bytes, "it has what it needs")

	runs, b.waitTimeout = 0, time.Millisecond
	err := h.search(func() error {
		runs++
		others.add(-(1 << 10))
		for range 1 << 10 {
			if err := h.chargeNow(1 << 10); err != nil {
				return err
			}
		}
		return nil
	})
	assert.True(t, apierrors.IsTooManyRequests(err), err)
	assert.LessOrEqual(t, runs, mostRuns)
	assert.EqualValues(t, 100<<10, h.bytes, "what it had before")
	h.release()
	others.release()
	assert.Zero(t, b.used)
}

// TestUsersLeaveMemoryToOthers has users who take all that they may, one after the other, and then all of them again.
func TestUsersLeaveMemoryToOthers(t *testing.T) {
	take := func(b *budget, name string) {
		for h := b.hold(asUser(t, name)); h.charge(1<<10) == nil; {
			continue
		}
	}
	for greedy := int64(1); greedy <= 7; greedy++ {
		b := newBudget(64 << 20)
		b.waitTimeout = 0
		for range 2 {
			for i := range greedy {
				take(b, fmt.Sprint("greedy-", i))
			}
		}
		err := b.hold(asUser(t, "greedy-0")).charge(1 << 10)
		require.True(t, apierrors.IsTooManyRequests(err), err)
		_, known := apierrors.SuggestsClientDelay(err)
		assert.True(t, known, "when to try again")
		assert.GreaterOrEqual(t, b.max-b.used, b.max/(greedy+1), "%d users leave", greedy)
		for i := range (b.max - b.used) / (b.max / smallShare) {
			assert.NoError(t, b.hold(asUser(t, fmt.Sprint("modest-", i))).charge(b.max/smallShare), "beside %d others", greedy)
		}
	}
}

func TestServiceAccountsOfANamespaceShareMemory(t *testing.T) {
	b := newBudget(64 << 20)
	b.waitTimeout = 0
	charge := func(user string, bytes int64) error { return b.hold(asUser(t, user)).charge(bytes) }
	require.NoError(t, charge("system:serviceaccount:team:one", 32<<20))
	require.Error(t, charge("system:serviceaccount:team:two", 1<<20))
	require.NoError(t, charge("system:serviceaccount:others:one", 8<<20))
	require.NoError(t, charge("team", 5<<20))
}

func TestUsersWithLittleTakeNothingFromOthers(t *testing.T) {
	b := newBudget(64 << 20)
	b.waitTimeout = 0
	for i := range 32 {
		require.NoError(t, b.hold(asUser(t, fmt.Sprint("modest-", i))).charge(1<<20))
	}
	require.NoError(t, b.hold(asUser(t, "a long list")).charge(32<<20))
	assert.Error(t, b.hold(asUser(t, "modest-0")).charge(1), "there is nothing left")
}

func TestAWatchBeginsWithoutAllObjectsInMemory(t *testing.T) {
	h, _, write := newLarge(t)
	h.budget.max, h.budget.largest = 30_000, 20_000 // of which a user gets less than half of the objects
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
