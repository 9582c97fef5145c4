// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInflated(t *testing.T) {
	for _, document := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte("0123456789"), 10_000)} {
		compressed, err := compress(bytes.NewReader(document), maxDocument)
		require.NoError(t, err)
		// It also seeks, in all ways.
		assert.NoError(t, iotest.TestReader(newInflated(compressed), document), "%d bytes", len(document))
	}
}
