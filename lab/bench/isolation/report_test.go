// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// example returns a report with two faults, of which the second one ends every third read, and all writes, of one side.
func example() *report {
	r := &report{options: options{definitions: 10}, Began: time.Unix(1000, 0)}
	for _, s := range (&options{}).sides() {
		m := &measured{Side: s.name, requests: map[string][]request{}}
		m.Phases = []phase{
			{Name: idle, Began: time.Unix(1000, 0), Ended: time.Unix(1010, 0)},
			{Name: "fault", label: "f", Began: time.Unix(1010, 0), Ended: time.Unix(1020, 0), Note: "note of " + s.name},
		}
		for _, subject := range subjects() {
			for i := range 600 {
				due := time.Unix(1000, 0).Add(time.Duration(i) * 20 * time.Second / 600)
				one := request{due: due, took: 10 * time.Millisecond, write: i%6 == 5}
				if i >= 300 {
					one.took *= 2
					one.failed = s.name == "Tripod" && (one.write || i%3 == 0)
				}
				m.requests[subject.name] = append(m.requests[subject.name], one)
			}
		}
		r.Sides = append(r.Sides, m)
	}
	return r
}

func TestTablesCompareWithTheTimeWithoutAFault(t *testing.T) {
	tables := example().tables()
	require.Len(t, tables, len(subjects())+1)
	assert.Equal(t, [][]string{
		{idle, "10.0 ms", "10.0 ms", "0", "10.0 ms", "10.0 ms", "0"},
		{"fault", "20.0 ms ×2.00", "20.0 ms ×2.00", "0", "20.0 ms ×2.00", "no answer", "150 of 300"},
	}, tables[0].Rows)
	assert.Equal(t, []string{"fault", "note of kube-apiserver", "note of Tripod"}, tables[len(tables)-1].Rows[1])
}

func TestAFailedRequestIsInTheGraph(t *testing.T) {
	g := example().graph()
	for _, panel := range g.Panels {
		require.Len(t, panel.Lines, 2)
		for _, line := range panel.Lines {
			last := line.Points[len(line.Points)-1].Milliseconds
			if line.Name == "Tripod" {
				assert.InDelta(t, float64(requestTimeout.Milliseconds()), last, 10, "failed reads count as the longest time")
			} else {
				assert.InDelta(t, 20, last, 1)
			}
		}
	}
}

func TestThePageIsWritten(t *testing.T) {
	r := example()
	r.docs = filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, r.writeDocs())
	text, err := os.ReadFile(r.docs)
	require.NoError(t, err)
	assert.Contains(t, string(text), "| fault | 20.0 ms ×2.00 |")
	assert.Contains(t, string(text), "(page.svg)")
	assert.FileExists(t, filepath.Join(filepath.Dir(r.docs), "page.svg"))
}

func TestDiscoveryHasAResource(t *testing.T) {
	answer := []byte(`{"resources":[{"name":"widgets"}]}`)
	assert.NoError(t, has(answer, "widgets", nil))
	assert.Error(t, has(answer, "boats", nil))
	assert.Error(t, has(answer, "widgets", errors.New("away")))
}

func TestTheLimitOfMemoryIsThatOfTheProcess(t *testing.T) {
	data := dataOf(os.Getpid())
	assert.Greater(t, data, uint64(1<<20))
	assert.Zero(t, dataOf(1<<30), "no such process")
}
