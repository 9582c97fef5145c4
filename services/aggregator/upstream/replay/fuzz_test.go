// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBody sends a body several times, each time up to a position that the fuzzer chooses. Each attempt must get it from its beginning, and the
// recording must stay within its limit.
func FuzzBody(f *testing.F) {
	f.Add([]byte("body"), uint32(1), true, []byte{2, 0, 9})
	f.Add(bytes.Repeat([]byte("x"), 1000), uint32(65), false, []byte{0, 255, 255})
	f.Fuzz(func(t *testing.T, part []byte, repeat uint32, known bool, attempts []byte) {
		content := bytes.Repeat(part, int(repeat%100))
		if len(content) > 4*Limit {
			return
		}
		length := int64(-1)
		if known {
			length = int64(len(content))
		}
		body, closed := newBody(bytes.NewReader(content), length)
		for _, share := range attempts[:min(len(attempts), 5)] {
			if !body.Replayable() {
				break
			}
			attempt := body.Next()
			got, err := io.ReadAll(io.LimitReader(attempt, int64(len(content))*int64(share)/255))
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(content, got), "an attempt does not begin at the beginning")
			require.NoError(t, attempt.Close())
			require.LessOrEqual(t, len(body.recorded), Limit)
		}
		if body.Replayable() {
			last := body.Next()
			body.Settle()
			got, err := io.ReadAll(last)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), "the last attempt has %d of %d bytes", len(got), len(content))
			require.NoError(t, last.Close())
		} else {
			body.Close()
		}
		require.True(t, closed.closed, "the body stays open")
	})
}
