// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// noiseMeasures are the measures whose noise decides whether a page may be written. p99 has too few requests.
var noiseMeasures = []measure{cpuPerRequest, cpuWhenBusy, cpuPerEvent, p50}

// deviation returns by how much a ratio differs from 1, as a ratio above 1: 1.25 for ×1.25 and for ×0.80.
func deviation(ratio float64) float64 { return math.Exp(math.Abs(math.Log(ratio))) }

// noiseOf returns by how much stock differs from stock: in the middle of all workloads, and at most. Both are 0 if it was not measured.
func (r *report) noiseOf(what measure) (middle, most float64) {
	var all []float64
	for _, one := range r.Rows {
		if ratio, both := one.ratio(noise, what); both && one.base == stock {
			all = append(all, deviation(ratio))
			most = max(most, deviation(ratio))
		}
	}
	return table.Median(all), most
}

// checkNoise returns an error if half of the workloads differ by more than limit between stock and stock, or if that was not measured.
func (r *report) checkNoise(limit float64) error {
	measured := false
	for _, what := range noiseMeasures {
		middle, _ := r.noiseOf(what)
		if middle > limit {
			return fmt.Errorf("no page is written: %s of half of the workloads differs by ×%.2f or more between stock and stock, "+
				"and -max-noise is %g; measure on an idle machine, or with more -rounds", what, middle, limit)
		}
		measured = measured || middle > 0
	}
	if !measured {
		return fmt.Errorf("no page is written: the noise of the machine was not measured; let -sides have %s and %s", stock, noise)
	}
	return nil
}

func (r *report) noiseTable() table.Table {
	t := table.Table{Title: "Noise: by how much stock differs from stock", Header: []string{"", "half of the workloads", "at most"}}
	for _, what := range noiseMeasures {
		if middle, most := r.noiseOf(what); middle > 0 {
			t.Rows = append(t.Rows, []string{string(what), fmt.Sprintf("×%.2f", middle), fmt.Sprintf("×%.2f", most)})
		}
	}
	return t
}
