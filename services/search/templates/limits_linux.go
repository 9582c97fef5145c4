// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// self is this program, also if its file was replaced meanwhile.
const self = "/proc/self/exe"

// restrict takes from this process all that a template needs none of. It may use most bytes of memory more than now.
func restrict(most int64) error {
	collect(most)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("the memory of templates cannot be limited: %w", err)
	}
	var size, resident, shared, code, library, data uint64 // pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &library, &data); err != nil {
		return fmt.Errorf("/proc/self/statm: %w", err)
	}
	page := uint64(os.Getpagesize())
	more := uint64(most)
	for resource, limit := range map[int]uint64{
		// Go reserves addresses that it does not use, so what counts is the data. Not every kernel counts it.
		unix.RLIMIT_DATA: data*page + more,
		unix.RLIMIT_AS:   size*page + more + reserve,
		unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: 0,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("the limit %d of templates cannot be set: %w", resource, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// reserve are addresses that Go may reserve for memory, which it does by 64 MiB.
const reserve = 256 << 20

// processorTime is how long this process has run on a processor.
func processorTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// collect makes the garbage collector work harder before the memory ends.
func collect(most int64) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	debug.SetMemoryLimit(int64(now.Sys-now.HeapReleased) + most/4*3)
}
