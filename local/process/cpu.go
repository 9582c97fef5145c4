// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc, which is 100 on all platforms of Go.
const ticksPerSecond = 100

// cpuSeconds returns the processor time that a process has used, or 0 if unknown.
func cpuSeconds(pid int) float64 {
	if pid == 0 {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return cpuOfStat(string(data))
}

// cpuOfStat reads the 14th and the 15th field of a line, utime and stime. The second one is a name in parentheses, which may have blanks.
func cpuOfStat(line string) float64 {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	var ticks uint64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond
}
