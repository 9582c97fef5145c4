// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

func TestShapes(t *testing.T) {
	got, err := parseShapes("stock,3*stock,drop-in,2/3/1")
	require.NoError(t, err)
	assert.Equal(t, []shape{
		{Name: "stock", stock: 1}, {Name: "3*stock", stock: 3}, {Name: "drop-in", stock: 1, dropIn: true}, {Name: "2/3/1", aggregators: 2, cores: 3, extensions: 1},
	}, got)
	for _, wrong := range []string{"", "stock,", "0*stock", "3stock", "*stock", "x*stock", "1/2", "1/2/0", "1/2/x", "1/2/3/4", "tripod"} {
		_, err := parseShapes(wrong)
		assert.ErrorContains(t, err, "is none of stock, N*stock, drop-in and AGGREGATORS/CORES/EXTENSIONS", wrong)
	}
}

func TestLivesAreComparedPhaseByPhase(t *testing.T) {
	phase := func(cpu, p99 float64) *life {
		suffered := &suffered{LeaseAge: p99 / 2, Throttled: 3}
		return &life{Phases: []lived{{Name: join, Seconds: 2, CPU: map[string]float64{core: cpu, aggregator: cpu}, P99: p99, Suffered: suffered}}}
	}
	shapes, err := parseShapes("stock,1/1/1,2/3/2")
	require.NoError(t, err)
	l := &lives{Rounds: 3, shapes: shapes, Conditions: []string{alone, memory}, Lives: map[string]map[string][]*life{
		alone: {
			stock: {phase(1, 50), phase(4, 10), phase(2, 20)}, "1/1/1": {phase(1, 10), phase(9, 90), phase(1, 10)}, "2/3/2": {phase(3, 10)},
		},
		memory: {stock: {phase(2, 20)}, "1/1/1": {phase(3, 20)}},
	}}
	of := func(name string, seconds map[string]map[string]float64) *life {
		return &life{Shape: name, Phases: []lived{{Name: join, Purposes: seconds}}}
	}
	l.Profiled = []*life{
		of(stock, map[string]map[string]float64{stock: {"TLS": 2}}), of("1/1/1", map[string]map[string]float64{core: {"TLS": 1}, aggregator: {"TLS": 1.5}}),
	}
	o := &options{artifacts: t.TempDir(), docs: filepath.Join(t.TempDir(), "page.md"), json: true}
	require.NoError(t, l.write(o))
	var text bytes.Buffer
	require.NoError(t, table.Write(&text, l.tables()))
	assert.Regexp(t, `Processor time of the API servers, seconds\n\n +neighbour +stock +1/1/1 +2/3/2\nnodes join +none +4\.00 +2\.00 ×0\.50 +6\.00 ×1\.50\nnodes join +memory +4\.00 +6\.00 ×1\.50`, text.String())
	assert.Regexp(t, `p99 of the probe, ms\n\n +neighbour +stock +1/1/1 +2/3/2\nnodes join +none +20\.0 +10\.0 ×0\.50`, text.String())
	assert.Regexp(t, `CPU in each phase +none +×0\.50 +≤ 1\.1 +met +nodes join\n`, text.String(), "2/3/2 has no stock of three beside it")
	assert.Regexp(t, `CPU in each phase +memory +×1\.50 +≤ 1\.1 +\*\*not met\*\* +nodes join\n`, text.String())
	assert.Regexp(t, `oldest Lease of a node, seconds +none +25\.0 +45\.0 +5\.00\n`, text.String(), "the worst of all rounds counts")
	assert.Regexp(t, `seconds\n\n +stock +1/1/1 +1/1/1: aggregator +1/1/1: core\n(.*\n)*TLS +2\.00 +2\.50 \+0\.50 +1\.50 +1\.00\n`, text.String())
	page, err := os.ReadFile(o.docs)
	require.NoError(t, err)
	assert.Contains(t, string(page), "| nodes join | none | aggregator 2.00, core 2.00 | aggregator 1.00, core 1.00 | aggregator 3.00, core 3.00 |")
	assert.FileExists(t, filepath.Join(o.artifacts, "cluster.json"))
}
