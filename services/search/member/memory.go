// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// lists is how many streams of the process list.
var lists atomic.Int64

// beginList is called when a stream begins to list, and what it returns at the end, or more often. Lists leave a heap that the process
// needs no more, and that the Go runtime would give back over some minutes. After the last one, the process gives it back at once: 10
// seconds after a first copy of 100,000 objects, it has 102 MB rather than 272, and had 91 before (bench-search).
func beginList(s *store.Store) (end func()) {
	lists.Add(1)
	return sync.OnceFunc(func() {
		if lists.Add(-1) == 0 {
			giveBack(s)
		}
	})
}

func giveBack(s *store.Store) {
	s.CloseIdleConnections()
	runtime.GC() // a sync.Pool keeps what it has for one collection more
	debug.FreeOSMemory()
}
