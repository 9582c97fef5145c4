// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"testing"
	"testing/iotest"
)

func TestInflated(t *testing.T) {
	for _, document := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte("0123456789"), 10_000)} {
		compressed, err := compress(document)
		if err != nil {
			t.Fatal(err)
		}
		// It also seeks, in all ways.
		if err := iotest.TestReader(newInflated(compressed), document); err != nil {
			t.Errorf("%d bytes: %v", len(document), err)
		}
	}
}
