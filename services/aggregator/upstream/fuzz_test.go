// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// FuzzHold holds answers that arrive in any pieces, give a wrong length or break off anywhere. The client must get what the replica sent.
func FuzzHold(f *testing.F) {
	f.Add([]byte("answer"), uint32(6), int64(6), false, true)
	f.Add([]byte("answer"), uint32(3), int64(-1), true, false)
	f.Add(bytes.Repeat([]byte("x"), 9000), uint32(40), int64(70), false, false)
	broken := errors.New("broken")
	f.Fuzz(func(t *testing.T, part []byte, repeat uint32, length int64, breaks, oneByte bool) {
		content := bytes.Repeat(part, int(repeat%64))
		if len(content) > 2*maxHeld {
			return
		}
		var body io.Reader = bytes.NewReader(content)
		if breaks {
			body = io.MultiReader(body, iotest.ErrReader(broken))
		}
		if oneByte && len(content) < 10_000 {
			body = iotest.OneByteReader(body)
		}
		b := &Backend{holds: true}
		resp := &http.Response{ContentLength: max(length, -1), Body: io.NopCloser(body)}
		c := &call{backend: b, class: &routing.Request{Holdable: true, Repeatable: true}}
		if err := c.hold(resp); err != nil {
			require.True(t, breaks, "an answer that did not break off: %v", err)
			require.Zero(t, b.holding.Load())
			return
		}
		if held, ok := resp.Body.(*heldBody); ok {
			require.LessOrEqual(t, cap(held.begin), 2*maxHeld)
		}
		got, err := io.ReadAll(resp.Body)
		require.Equal(t, breaks, errors.Is(err, broken), "the end is lost: %v", err)
		require.True(t, bytes.Equal(content, got))
		require.NoError(t, resp.Body.Close())
		require.Zero(t, b.holding.Load(), "it is counted after its end")
	})
}
