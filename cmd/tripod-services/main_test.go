// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/services/list"
)

func TestTheNameOfTheProgramSaysWhichServiceRuns(t *testing.T) {
	original := mains
	t.Cleanup(func() { mains = original })
	for i, service := range list.RequiredNames() {
		assert.Contains(t, original, service)
		mains = map[string]func() int{service: func() int { return 100 + i }}
		assert.Equal(t, 100+i, run("/somewhere/"+list.Program(service), nil))
	}
	var stderr bytes.Buffer
	assert.Equal(t, 2, run("bin/tripod-services", &stderr))
	assert.Contains(t, stderr.String(), "start it by a link with one of these names: tripod-aggregator, tripod-core, tripod-extensions\n")
}
