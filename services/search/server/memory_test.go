// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// A member may send objects of many parts, which take 50 times their bytes if they are decoded. These tests read them in each way that a
// reader has.

// live returns the memory that is in use.
func live() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// peak returns the most MiB in use while a function runs, in a process that may have 450 MiB.
func peak(do func()) int {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(450 << 20))
	runtime.GC()
	done, most := make(chan struct{}), make(chan int)
	go func() {
		top := 0
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, int(m.HeapInuse>>20))
			select {
			case <-done:
				ticker.Stop()
				most <- top
				return
			case <-ticker.C:
			}
		}
	}()
	do()
	close(done)
	return <-most
}

var things = streams.Kind{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, Name: "Thing", Namespaced: true,
}

// manyParts is the body of an object with 198,000 values in 0.7 MB, which is close to the most that search takes of a member.
var manyParts = `[{"":0}` + strings.Repeat(`,{"":0}`, 98_000) + `]`

func writeThing(t *testing.T, s *store.Store, stream *streams.Stream, name, spec string) {
	t.Helper()
	change := store.Change{Object: store.Object{
		Namespace: "default", Name: name, UID: name, ResourceVersion: "1",
		JSON: fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":"default","uid":%q},"spec":%s}`, name, name, spec),
	}}
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{change}}))
}

// withThings returns a store that has some things, and their stream.
func withThings(t *testing.T, number int, spec string) (*store.Store, *streams.Stream) {
	t.Helper()
	s := newStore(t)
	stream, err := s.OpenStream(t.Context(), "liar", things)
	require.NoError(t, err)
	for i := range number {
		writeThing(t, s, stream, fmt.Sprintf("thing-%02d", i), spec)
	}
	require.NoError(t, s.Sweep(t.Context(), stream, 0, "1"))
	return s, stream
}

func TestWatchesByFieldsKeepNothingDecoded(t *testing.T) {
	s, stream := withThings(t, 0, "")
	location := serverOf(t, NewHandler(s, nil, nil)) + "resources/apis/example.com/v1/things?watch=true&resourceVersion=1"
	all, some := open(t, location, ""), open(t, location+"&fieldSelector=spec.phase%3DRunning", "")
	before := live()
	for i := range 40 {
		name := fmt.Sprint("thing-", i)
		writeThing(t, s, stream, name, manyParts)
		require.Equal(t, name, all().Object.Name)
	}
	writeThing(t, s, stream, "last", `{"phase":"Running"}`)
	require.Equal(t, "last", some().Object.Name)
	assert.Less(t, live()-before, 100, "the watch cache keeps 32 MiB of text")
}

// watchSilently opens a watch and reads nothing of it.
func watchSilently(t *testing.T, location string, at int64) {
	t.Helper()
	askSilently(t, location, fmt.Sprintf("resources/apis/example.com/v1/things?watch=true&resourceVersion=%d", at))
}

// askSilently sends a request, and reads nothing of the answer but its beginning.
func askSilently(t *testing.T, location, path string) {
	t.Helper()
	address, err := url.Parse(location)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", address.Host)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n", address.Path, path)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 16)) // it has begun
	require.NoError(t, err)
}

func TestWatchesThatNobodyReadsHoldLittle(t *testing.T) {
	s, stream := withThings(t, 0, "")
	at, err := s.Revision(t.Context())
	require.NoError(t, err)
	for i := range 90 {
		writeThing(t, s, stream, fmt.Sprint("thing-", i), `"`+strings.Repeat("x", 100_000)+`"`)
	}
	h := NewHandler(s, nil, nil)
	location := serverOf(t, h)
	before := live()
	for range 60 {
		watchSilently(t, location, at)
	}
	require.Eventually(t, func() bool {
		h.budget.mu.Lock()
		defer h.budget.mu.Unlock()
		return h.budget.used > 0
	}, time.Minute, 10*time.Millisecond)
	assert.Less(t, live()-before, 64, "of 540 MiB that they have asked for")
}

func TestAWatchHoldsMemoryForWhatItBeginsWith(t *testing.T) {
	s, _ := withThings(t, 120, `"`+strings.Repeat("x", 100_000)+`"`) // more than the kernel keeps
	h := NewHandler(s, nil, nil)
	watchSilently(t, serverOf(t, h), 0)
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	assert.Greater(t, h.budget.used, int64(12_000_000), "they are being written")
}

func TestAWatchThatNobodyReadsEnds(t *testing.T) {
	s, stream := withThings(t, 0, "")
	at, err := s.Revision(t.Context())
	require.NoError(t, err)
	h := NewHandler(s, nil, nil)
	h.writeTimeout = 100 * time.Millisecond
	watchSilently(t, serverOf(t, h), at)
	for i := range 90 { // more than the kernel keeps
		writeThing(t, s, stream, fmt.Sprint("thing-", i), `"`+strings.Repeat("x", 100_000)+`"`)
	}
	require.Eventually(t, func() bool {
		h.watches.mu.Lock()
		defer h.watches.mu.Unlock()
		return h.watches.all == 0
	}, time.Minute, 10*time.Millisecond)
}

func TestAUserHasSomeWatches(t *testing.T) {
	var c watchLimiter
	mallory, other := asUser(t, "mallory"), asUser(t, "alice")
	var leave func()
	for range watchesOfUser {
		var err error
		leave, err = c.acquire(mallory)
		require.NoError(t, err)
	}
	_, err := c.acquire(mallory)
	assert.True(t, apierrors.IsTooManyRequests(err), err)
	_, err = c.acquire(other)
	require.NoError(t, err)
	leave()
	_, err = c.acquire(mallory)
	require.NoError(t, err)
	for _, name := range []string{"bob", "carol", "dave"} {
		takeWatches(t, &c, name)
	}
	_, err = c.acquire(asUser(t, "erin"))
	require.NoError(t, err, "some users have not taken all")
}

// takeWatches begins watches of a user until there may be no more.
func takeWatches(t *testing.T, c *watchLimiter, name string) (number int) {
	t.Helper()
	for {
		if _, err := c.acquire(asUser(t, name)); err != nil {
			require.True(t, apierrors.IsTooManyRequests(err), err)
			return number
		}
		number++
	}
}

// TestUsersLeaveWatchesToOthers has users who take all watches that they may, again and again.
func TestUsersLeaveWatchesToOthers(t *testing.T) {
	for greedy := 1; greedy <= 7; greedy++ {
		var c watchLimiter
		for range 3 {
			for i := range greedy {
				takeWatches(t, &c, fmt.Sprint("greedy-", i))
			}
		}
		assert.LessOrEqual(t, int(c.all), watchesOfAll*greedy/(greedy+1), "%d users", greedy)
		assert.GreaterOrEqual(t, takeWatches(t, &c, "modest"), watchesOfAll/smallShare)
	}
}

func TestServiceAccountsOfANamespaceShareWatches(t *testing.T) {
	var c watchLimiter
	for i := range 20 {
		takeWatches(t, &c, fmt.Sprint("system:serviceaccount:team:", i))
	}
	assert.EqualValues(t, watchesOfUser, c.all)
	assert.Greater(t, takeWatches(t, &c, "system:serviceaccount:others:one"), 500)
}

func asUser(t *testing.T, name string) context.Context {
	t.Helper()
	return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
}

func TestAnswersOfManyPartsTakeLittleMemory(t *testing.T) {
	s, _ := withThings(t, 16, manyParts)
	h := NewHandler(s, nil, http.NotFoundHandler())
	const list, collection, table = "resources/apis/example.com/v1/things", "collectionresources/any?groups=example.com&limit=500", "application/json;as=Table;g=meta.k8s.io;v=v1"
	for _, of := range []struct{ path, accept string }{
		{list, ""}, {list, table}, {list + "?limit=500", "application/yaml"},
		{collection, ""}, {collection, table}, {collection, "application/yaml"}, {collection + "&onlyMetadata=true", "application/yaml"},
	} {
		code := 0
		top := peak(func() {
			req := httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+of.path, nil)
			req.Header.Set("Accept", of.accept)
			answer := &counted{header: http.Header{}}
			h.ServeHTTP(answer, byAdministrator(req))
			code = answer.code
		})
		assert.Equal(t, http.StatusOK, code)
		assert.Less(t, top, 250, "%s as %s: 11 MB of text, and one object that is decoded", of.path, of.accept)
	}
}

// counted is an answer of which nothing is kept.
type counted struct {
	header http.Header
	code   int
}

func (c *counted) Header() http.Header { return c.header }

func (c *counted) WriteHeader(code int) { c.code = code }

func (c *counted) Write(text []byte) (int, error) {
	if c.code == 0 {
		c.code = http.StatusOK
	}
	return len(text), nil
}

func TestYAMLIsThatOfJSON(t *testing.T) {
	objects := []string{
		`{"kind":"Thing","spec":{"lines":"one\n  two\n\nthree\n","empty":"","list":[1,{"a":[]},[[2]]],"long":"` + strings.Repeat("word ", 60) + `"}}`,
		`{"a":"- b: c","quote":"it's \"so\"","text":"\t\u0001é","no":null,"on":"on","number":1e3}`,
		strings.Repeat(`{"a":[`, 120) + strings.Repeat("1,", 30_000) + "1" + strings.Repeat("]}", 120), // 14 MB of blanks
	}
	for number := range len(objects) + 1 {
		d := &document{
			head: []byte(`{"kind":"ThingList","metadata":{"resourceVersion":"7"}}`), list: "items", number: number,
			item: func(i int) ([]byte, error) { return []byte(objects[i]), nil },
		}
		var inJSON, inYAML bytes.Buffer
		require.NoError(t, d.writeJSON(t.Context(), &inJSON))
		require.NoError(t, d.writeYAML(t.Context(), &inYAML))
		assert.Less(t, inYAML.Len(), 2<<20)
		back, err := yaml.YAMLToJSON(inYAML.Bytes())
		require.NoError(t, err)
		assert.JSONEq(t, inJSON.String(), string(back))
	}
}

// bytesUsed returns the bytes that answers hold.
func (b *budget) bytesUsed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func TestDocumentsThatNobodyReadsHoldLittle(t *testing.T) {
	s := newStore(t)
	schema := []byte(`{"x":[1` + strings.Repeat(",1", 8<<20-10) + `]}`)
	require.NoError(t, s.PutSchema(t.Context(), "west", "api/v1", "1", schema))
	for i := range 1000 { // an index of 2 MB
		require.NoError(t, s.PutSchema(t.Context(), "west", "apis/"+strings.Repeat("x", 2000)+fmt.Sprint(i), "1", []byte("{}")))
	}
	for path, most := range map[string]int{"resources/openapi/v3/api/v1": 32, "resources/openapi/v3": 256} {
		t.Run(path, func(t *testing.T) {
			h := NewHandler(s, nil, nil)
			h.writeTimeout = 2 * time.Second
			location := serverOf(t, h)
			before := live()
			for range 40 {
				askSilently(t, location, path)
			}
			assert.Positive(t, h.budget.bytesUsed(), "answers hold memory")
			assert.Less(t, live()-before, most, "of 640 MiB that they have asked for")
			require.Eventually(t, func() bool { return h.budget.bytesUsed() == 0 }, time.Minute, 10*time.Millisecond, "answers that nobody takes end")
		})
	}
}

func TestADocumentWaitsForTheMemoryOfOthers(t *testing.T) {
	s := newStore(t)
	require.NoError(t, s.PutSchema(t.Context(), "west", "api/v1", "1", []byte(`{"of": "west"}`)))
	h := newHandler(s, nil, nil, newBudget(1<<20))
	h.budget.waitTimeout = time.Millisecond
	others := h.budget.hold(t.Context())
	others.add(1 << 20)
	paths := []string{"resources/openapi/v3", "resources/openapi/v3/api/v1", "resources/apis", "resources/version", "resources/clusters"}
	for _, path := range paths {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusTooManyRequests, answer.Code, path)
	}
	others.release()
	for _, path := range paths {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, answer.Code, path)
		assert.Zero(t, h.budget.bytesUsed(), path)
	}
}
