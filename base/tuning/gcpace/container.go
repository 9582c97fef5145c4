// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package gcpace

import (
	"io/fs"
	"strconv"
	"strings"
)

// containerLimit returns the memory limit of the control group in bytes, version 2 or 1, at the path where a container sees its own.
func containerLimit(groups fs.FS) (int64, bool) {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		content, err := fs.ReadFile(groups, file)
		if err != nil {
			continue
		}
		// Without a limit, version 2 says "max", and version 1 a number larger than any memory.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		return limit, err == nil && limit > 0 && limit < 1<<60
	}
	return 0, false
}
