// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// oneProcessorSides are the sides as they run on a machine of one processor. Go never chooses one for a container with a limit of one
// processor, but two, so this is set.
func oneProcessorSides(all []side) []side {
	set := slices.Clone(all)
	for i := range set {
		set[i].env = append(slices.Clone(set[i].env), "GOMAXPROCS=1")
	}
	return set
}

// oneProcessorWorkloads are small requests, and watches.
func oneProcessorWorkloads() []workload {
	return slices.DeleteFunc(workloads(), func(w workload) bool {
		small := w.Credentials == certificates && w.Resource == configMaps.Name && (w.Name == "GET" || w.Name == "CREATE")
		return !small && !w.fanOut
	})
}

// measureOneProcessor compares the sides, each process with one processor of Go.
func (o *options) measureOneProcessor(ctx context.Context, r *report) error {
	of := *o
	of.sides, of.conditions = oneProcessorSides(o.sides), []string{alone}
	r.OneProcessor = newReport(&of)
	of.logf("one processor of Go for each process")
	if err := of.measureWorkloads(ctx, r.OneProcessor, oneProcessorWorkloads()); err != nil {
		return fmt.Errorf("one processor: %w", err)
	}
	return nil
}

// oneProcessorTables shows the sides with one processor of Go for each process.
func (r *report) oneProcessorTables() []table.Table {
	const title = "One processor of Go for each process"
	return []table.Table{
		r.workloadTable(title+": requests", func(one *row) bool { return !one.fanOut }, cpuPerRequest, cpuWhenBusy, p50, p99, perSecond),
		r.workloadTable(title+": watches", func(one *row) bool { return one.fanOut }, cpuPerEvent, withEtcd(cpuPerEvent), p50, p99),
	}
}
