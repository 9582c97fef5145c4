// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// aim is a target of Tripod and what was found. Unless its name has a unit, it is a ratio to stock.
type aim struct {
	What string
	// Condition is what ran beside.
	Condition string
	Limit     float64
	// Found has the result of each side: the worst one that the aim is about.
	Found map[string]found
}

// found is a result, and what it was measured on.
type found struct {
	Value float64
	Of    string
	Met   bool
}

// limits are what an aim allows without a neighbour, and beside one.
type limits struct{ alone, beside float64 }

// aims returns the aims for which something was measured.
func (r *report) aims() []aim {
	if r.base() != stock {
		return nil
	}
	writes := []string{"CREATE", "UPDATE", "APPLY", "DELETE"}
	all := slices.Concat(
		r.rowAims("CPU per GET, client certificates", limits{0.72, 0.9}, cpuPerRequest, certificates, "GET"),
		r.rowAims("the same of 16 busy clients", limits{0.72, 0.9}, cpuWhenBusy, certificates, "GET"),
		r.rowAims("CPU per GET, service account tokens", limits{0.8, 1}, cpuPerRequest, tokens, "GET"),
		r.rowAims("the same of 16 busy clients", limits{0.8, 1}, cpuWhenBusy, tokens, "GET"),
		r.rowAims("CPU per CREATE, UPDATE, server-side apply, DELETE", limits{0.8, 0.95}, cpuPerRequest, "", writes...),
		r.rowAims("the same of 16 busy clients", limits{0.8, 0.95}, cpuWhenBusy, "", writes...),
		r.rowAims("CPU per LIST 500", limits{0.65, 0.8}, cpuPerRequest, "", "LIST"),
		r.rowAims("the same of 16 busy clients", limits{0.65, 0.8}, cpuWhenBusy, "", "LIST"),
		r.rowAims("CPU per event, 1,000 watchers", limits{1, 1}, cpuPerEvent, "", watchName(1000)),
		r.rowAims("CPU per event, 5,000 watchers", limits{0.9, 0.9}, cpuPerEvent, "", watchName(5000)),
		r.rowAims("live memory per watch", limits{1.2, 1.2}, perWatch, "", "WATCH"),
		r.rowAims("context switches per GET", limits{1.3, 1.3}, switches, "", "GET"),
		r.rowAims("p50 at equal load", limits{1.2, 1.2}, p50, ""),
		r.rowAims("p99 at equal load", limits{1, 1}, p99, ""),
		[]aim{
			r.sidesAim("CPU without requests", 1.3, r.Idle),
			r.sidesAim("start to ready", 1.5, r.Starts),
			r.crowdAim("p99 of core GETs at 100/s while the CRDs are installed", 0.5, r.installP99),
			r.crowdAim("memory of all services, what they share counted once", 1.3, together(idle)),
			r.crowdAim("resident memory of core with the CRDs", 0.25, memoryOf(core)),
			r.crowdAim("resident memory of all services, same state", 0.8, memoryOf("")),
			r.crowdAim("resident memory, 3 core + 1 extensions + 1 aggregator to 3 stock", 0.6, replicated),
			r.mallocsAim("allocations per proxied GET in the aggregator, a number", 60),
		},
	)
	if r.OneProcessor != nil {
		all = append(all,
			r.OneProcessor.rowAim("one processor of Go: CPU per event, 1,000 watchers", 1, alone, cpuPerEvent, "", watchName(1000)),
			r.OneProcessor.rowAim("one processor of Go: CPU per event, 5,000 watchers", 0.9, alone, cpuPerEvent, "", watchName(5000)),
			r.OneProcessor.rowAim("one processor of Go: p50 of events", 1.2, alone, p50, "", "WATCH"))
	}
	return slices.DeleteFunc(all, func(a aim) bool { return len(a.Found) == 0 })
}

// rowAims takes the worst ratio of the workloads whose names begin with one of these, under each condition.
func (r *report) rowAims(what string, limit limits, of measure, credentials string, names ...string) []aim {
	return []aim{r.rowAim(what, limit.alone, alone, of, credentials, names...), r.rowAim(what, limit.beside, memory, of, credentials, names...)}
}

func (r *report) rowAim(what string, limit float64, condition string, of measure, credentials string, names ...string) aim {
	a := aim{What: what, Condition: condition, Limit: limit, Found: map[string]found{}}
	for _, one := range r.Rows {
		named := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(one.Workload, name) })
		if one.Condition != condition || (len(names) > 0 && !named) || (credentials != "" && one.Credentials != credentials) {
			continue
		}
		for _, s := range r.sides {
			if ratio, both := one.ratio(s.Name, of); both && !s.isStock() {
				a.worst(s.Name, ratio, one.Workload+", "+one.Resource+", "+one.Credentials)
			}
		}
	}
	return a
}

// worst records a value if it is the worst so far.
func (a *aim) worst(side string, value float64, of string) {
	if value > a.Found[side].Value {
		a.Found[side] = found{Value: value, Of: of, Met: value <= a.Limit}
	}
}

// crowdAim compares each state of a side with stock's.
func (r *report) crowdAim(what string, limit float64, values func(*crowd) map[string]float64) aim {
	a := aim{What: what, Condition: alone, Limit: limit, Found: map[string]found{}}
	theirs := r.crowd(stock)
	if theirs == nil {
		return a
	}
	stocks := values(theirs)
	for _, ours := range r.Crowds {
		if ours.Side == stock {
			continue
		}
		for state, value := range values(ours) {
			if stocks[state] > 0 {
				a.worst(ours.Side, value/stocks[state], state)
			}
		}
	}
	return a
}

func (r *report) installP99(c *crowd) map[string]float64 {
	i := slices.IndexFunc(r.Phases, func(p phase) bool { return p.Side == c.Side && p.Name == install && p.Requests == "GET" })
	return map[string]float64{install: r.Phases[i].P99}
}

// memoryOf returns the memory of a service, or of kube-apiserver, in each state with CRDs.
func memoryOf(service string) func(*crowd) map[string]float64 {
	return func(c *crowd) map[string]float64 {
		services := []string{service}
		if c.Side == stock {
			services = []string{kubeAPIServer}
		}
		return map[string]float64{installed: c.sum(installed, services...), wasRead: c.sum(wasRead, services...)}
	}
}

// together returns the memory of all processes in a state, with what they share counted once.
func together(state string) func(*crowd) map[string]float64 {
	return func(c *crowd) map[string]float64 { return map[string]float64{state: c.Together[state]} }
}

// replicated returns the memory of three replicas of core beside one each of extensions and the aggregator.
func replicated(c *crowd) map[string]float64 {
	return map[string]float64{"after a read of the OpenAPI of one": c.sum(wasRead) + c.sum(fresh, core, kubeAPIServer)}
}

// sidesAim compares a figure of whole sides.
func (r *report) sidesAim(what string, limit float64, of map[string][]float64) aim {
	a := aim{What: what, Condition: alone, Limit: limit, Found: map[string]found{}}
	for _, s := range r.sides {
		if theirs, ours := table.Median(of[stock]), table.Median(of[s.Name]); !s.isStock() && theirs > 0 && ours > 0 {
			a.worst(s.Name, ours/theirs, "all services")
		}
	}
	return a
}

func (r *report) mallocsAim(what string, limit float64) aim {
	a := aim{What: what, Condition: alone, Limit: limit, Found: map[string]found{}}
	for _, one := range r.Rows {
		for name, measures := range one.Medians {
			if count := measures[aggregatorMallocs]; count > 0 {
				a.worst(name, count, one.Workload+", "+one.Resource+", "+one.Credentials)
			}
		}
	}
	return a
}
