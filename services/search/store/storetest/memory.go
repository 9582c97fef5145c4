// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import "runtime"

// Allocated returns how many bytes a function allocates.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
