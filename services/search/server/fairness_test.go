// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/search/rights"
)

// serverForUser returns where a handler answers requests of a user who may see everything.
func serverForUser(t *testing.T, h http.Handler, name string) string {
	t.Helper()
	return serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: name})
		reader, _ := request.UserFrom(ctx)
		storeAccessSet(ctx, rights.Unlimited(reader))
		h.ServeHTTP(w, req.WithContext(ctx))
	}))
}

const byField = "&fieldSelector=spec.x%21%3Dnever"

// TestWatchesOfAUserTakeTurns has watches of a user wait for another one of this user, which looks at an object.
func TestWatchesOfAUserTakeTurns(t *testing.T) {
	s, write := opened(t)
	h := NewHandler(s, nil, nil)
	mallory, alice := serverForUser(t, h, "mallory"), serverForUser(t, h, "alice")
	at := watchedPath + "&resourceVersion=10"
	var waiting []func() *event
	for range 10 {
		waiting = append(waiting, open(t, mallory+at+byField, ""))
	}
	table := open(t, mallory+at, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	free, other := open(t, mallory+at, ""), open(t, alice+at+byField, "")
	done, err := h.judged.acquire(asUser(t, "mallory"), time.Minute)
	require.NoError(t, err)
	write(change("default", "new", "8", nil))
	assert.Equal(t, "new", other().Object.Name, "another user does not wait")
	assert.Equal(t, "new", free().Object.Name, "a watch that looks at no fields does not wait")
	waiting = append(waiting, table)
	require.Eventually(t, func() bool {
		h.judged.mu.Lock()
		defer h.judged.mu.Unlock()
		return h.judged.users["mallory"].in == len(waiting)+1
	}, time.Minute, time.Millisecond, "all of them wait")
	done()
	for _, next := range waiting {
		assert.Equal(t, "new", next().Object.Name)
	}
	require.Eventually(t, func() bool {
		h.judged.mu.Lock()
		defer h.judged.mu.Unlock()
		return len(h.judged.users) == 0
	}, time.Minute, time.Millisecond)
}

func TestAWatchThatWaitsForTooManyOthersEnds(t *testing.T) {
	s, write := opened(t)
	h := NewHandler(s, nil, nil)
	h.waitTimeout = time.Millisecond
	next := open(t, serverForUser(t, h, "mallory")+watchedPath+"&resourceVersion=10"+byField, "")
	done, err := h.judged.acquire(asUser(t, "mallory"), time.Minute)
	require.NoError(t, err)
	defer done()
	write(change("default", "new", "8", nil))
	ended := next()
	assert.Equal(t, "ERROR", ended.Type)
	assert.Equal(t, http.StatusTooManyRequests, ended.Object.Code)
}

// TestWatchesOfAUserTakeTurnsAtTheDatabase has a user with watches that read what has changed from the database, and one with another
// watch.
func TestWatchesOfAUserTakeTurnsAtTheDatabase(t *testing.T) {
	s, _ := opened(t)
	h := NewHandler(s, nil, nil)
	h.waitTimeout = time.Millisecond
	for range searchesOfUser {
		done, err := h.searches.acquire(asUser(t, "mallory"), time.Minute)
		require.NoError(t, err)
		defer done()
	}
	for _, path := range []string{"&resourceVersion=5", "&resourceVersion=10&maxStaleness=1h", ""} {
		answer, err := http.Get(serverForUser(t, h, "mallory") + watchedPath + path)
		require.NoError(t, err)
		answer.Body.Close()
		assert.Equal(t, http.StatusTooManyRequests, answer.StatusCode, path)
	}
	open(t, serverForUser(t, h, "alice")+watchedPath+"&resourceVersion=5", "")
}

func TestTheObjectsThatAWatchBeginsWithHaveATime(t *testing.T) {
	for _, accept := range []string{"", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
		h, _, _ := newLarge(t)
		h.initialTime = 1
		next := open(t, serverOf(t, h)+largePath+"?watch=true", accept)
		assert.Equal(t, []string{"ADDED l0 11", "ADDED l1 12", "ADDED l2 13"}, take(t, next, 3))
		ended := next()
		assert.Equal(t, "ERROR", ended.Type)
		assert.Equal(t, http.StatusGatewayTimeout, ended.Object.Code)
		assert.Contains(t, ended.Object.Message, "take more than 4m0s")
		assert.Zero(t, h.budget.bytesUsed())
	}
}

// TestAWatchIsSmall has watches with as much as a client may send.
func TestAWatchIsSmall(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	location := serverOf(t, h) + watchedPath + "&resourceVersion=10&fieldSelector="
	open(t, location+"a", "")
	const watches = 200
	before := live()
	for i := range watches {
		selector := ""
		for field := range 16 {
			selector += fmt.Sprintf("x%d%s!=%s,", field, strings.Repeat(".a", 29), strings.Repeat("b", 1500))
		}
		open(t, location+url.QueryEscape(selector), fmt.Sprintf("application/json;x=%04d%s", i, strings.Repeat("x", 3000)))
	}
	t.Logf("%d KiB each, with those of the client", (live()-before)<<10/watches)
	assert.Less(t, live()-before, watches*400>>10)

	req, err := http.NewRequest(http.MethodGet, location+"a", nil)
	require.NoError(t, err)
	req.Header.Set("X-Something", strings.Repeat("x", maxRequest))
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
}
