// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package gcpace

import (
	"io/fs"
	"strconv"
	"strings"
)

// containerLimit returns the bytes of memory that the control group may use, as a container sees its own: that of version 2, or of
// version 1.
func containerLimit(groups fs.FS) (int64, bool) {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		content, err := fs.ReadFile(groups, file)
		if err != nil {
			continue
		}
		// Version 2 says "max" and version 1 a number beyond all memory where there is no limit.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		return limit, err == nil && limit > 0 && limit < 1<<60
	}
	return 0, false
}
