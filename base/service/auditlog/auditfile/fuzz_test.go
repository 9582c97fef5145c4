// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditfile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReceive reads arbitrary bytes from a connection. Exactly the lines that were sent arrive.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("{}\n"), []byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{}, []byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, event, stream []byte) {
		var wire bytes.Buffer
		require.NoError(t, Send(&wire, event))
		got, err := Receive(&wire)
		require.NoError(t, err)
		require.True(t, bytes.Equal(event, got))
		require.Zero(t, wire.Len())

		if len(stream) > 1 && stream[0] > 0 {
			return // a length that takes megabytes, for nothing new
		}
		rest := bytes.NewReader(stream)
		if got, err = Receive(rest); err == nil {
			require.Equal(t, stream[4:4+len(got)], got)
			require.Equal(t, len(stream)-4-len(got), rest.Len())
		}
	})
}
