// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"runtime/debug"
	"sync/atomic"
)

// listing is how many streams of the process list.
var listing atomic.Int64

// countLists is called when a stream begins or ends to list. Lists leave a heap that the process needs no more, and that the Go runtime would give back over some
// minutes. After the last one, the process gives it back at once: 10 seconds after a first copy of 100,000 objects, it had 123 MB rather than 272 (bench-search).
func countLists(before, now bool) {
	switch {
	case now && !before:
		listing.Add(1)
	case before && !now && listing.Add(-1) == 0:
		go debug.FreeOSMemory()
	}
}
