// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the processor and the kernel.
func Machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, found := strings.Cut(string(data), "model name"); found {
			name, _, _ := strings.Cut(after, "\n")
			model = strings.Trim(name, "\t :")
		}
	}
	var memory unix.Sysinfo_t
	var kernel unix.Utsname
	if unix.Sysinfo(&memory) != nil || unix.Uname(&kernel) != nil {
		return fmt.Sprintf("%s, %d CPUs", model, runtime.NumCPU())
	}
	const gib = 1 << 30
	return fmt.Sprintf("%s, %d CPUs, %.0f GiB, Linux %s", model, runtime.NumCPU(),
		float64(memory.Totalram)*float64(memory.Unit)/gib, unix.ByteSliceToString(kernel.Release[:]))
}
