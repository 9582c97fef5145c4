// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// A member may send objects of many parts, which take 50 times their bytes if they are decoded. These tests read them in each way that a reader has.

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

var things = store.Kind{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, Name: "Thing", Namespaced: true,
}

// manyParts is the body of an object with 198,000 values in 0.7 MB, which is close to the most that search takes of a member.
var manyParts = `[{"":0}` + strings.Repeat(`,{"":0}`, 98_000) + `]`

func writeThing(t *testing.T, s *store.Store, stream *store.Stream, name, spec string) {
	t.Helper()
	change := store.Change{Object: store.Object{
		Namespace: "default", Name: name, UID: name, ResourceVersion: "1",
		JSON: fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":"default","uid":%q},"spec":%s}`, name, name, spec),
	}}
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{change}}))
}

// withThings returns a store that has some things, and their stream.
func withThings(t *testing.T, number int, spec string) (*store.Store, *store.Stream) {
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
	assert.Less(t, live()-before, 100, "the feed keeps 32 MiB of text")
}
