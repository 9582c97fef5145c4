// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestProcessorTimeIsThatOfTheSystem(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]float64{
		"17 (tripod-core) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1 2": 3,
		"17 (a) b) R 1 (c) S 1 17 17 0 -1 4194560 100 0 0 0 1 1 0 0 20 0":           0.02,
		"17 (tripod-core) S 1 17":                                0,
		"17 (x) S 1 17 17 0 -1 4194560 100 0 0 0 a b 0 0 20 0 9": 0,
		"": 0,
	} {
		assert.InDelta(t, want, cpuOfStat(line), 1e-9, line)
	}
	assert.Zero(t, cpuSeconds(0))
}
