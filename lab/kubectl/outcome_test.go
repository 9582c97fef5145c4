// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestOutcomeIsReadFromTheScripts(t *testing.T) {
	const before = "Recording: record_command_canary\nbogus: command not found\nError when running record_command_canary\n"
	for _, test := range []struct {
		name, output string
		want         map[string]bool
	}{
		{
			"all pass", before + "Recording: run_a\nfine\nRecording: run_b\n+++ [0102 03:04:05] TESTS PASSED\n",
			map[string]bool{"run_a": true, "run_b": true, between: true},
		},
		{
			"one fails", before + "Recording: run_a\nno\nError when running run_a\nRecording: run_b\nFAILED TESTS: run_a, \n",
			map[string]bool{"run_a": false, "run_b": true, between: true},
		},
		{
			"they end in a test", before + "Recording: run_a\nRecording: run_b\nno\n",
			map[string]bool{"run_a": true, "run_b": false, between: false},
		},
		{
			"they end after a failed test", before + "Recording: run_a\nError when running run_a\nno\n",
			map[string]bool{"run_a": false, between: false},
		},
		{
			"they end before the first test", before + "no etcd\n",
			map[string]bool{between: false},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOutcome(func(string) {})
			// Output comes in pieces.
			if _, err := io.CopyBuffer(struct{ io.Writer }{framework.Lines(o.line)}, struct{ io.Reader }{strings.NewReader(test.output)}, make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for name, result := range o.end() {
				got[name] = result.Passed
			}
			assert.Empty(t, cmp.Diff(test.want, got))
		})
	}
}

func TestAFailedTestIsQuoted(t *testing.T) {
	o := newOutcome(func(string) {})
	text := "Recording: run_a\nof a\nRecording: run_b\nreason\nError when running run_b\nRecording: run_c\nTESTS PASSED\n"
	if _, err := io.WriteString(framework.Lines(o.line), text); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "reason", o.end()["run_b"].Output, "output")
}

func TestReportCountsWhatPassesOnStockOnly(t *testing.T) {
	onStock := results{"both": {Passed: true}, "stock": {Passed: true}, "tripod": {}, "neither": {}, "missing": {Passed: true}}
	onTripod := results{"both": {Passed: true}, "stock": {Output: "reason"}, "tripod": {Passed: true}, "neither": {}}
	var output strings.Builder
	if got := report(&output, onStock, onTripod); got != 2 {
		t.Errorf("%d differences, want 2", got)
	}
	for _, want := range []string{
		"fails on Tripod: stock\n  reason", "fails on stock: tripod", "fails on both: neither", "did not run on Tripod: missing",
		"stock:  3 of 5", "Tripod: 2 of 4",
	} {
		assert.Contains(t, output.String(), want, "the report")
	}
}
