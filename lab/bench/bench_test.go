// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/lab/bench/graph"
	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

func TestWorkloadsHaveDifferentNames(t *testing.T) {
	seen := map[string]bool{startPart: true, oneProcessorPart: true, crowdPart: true, apiServicesPart: true}
	for _, w := range workloads() {
		assert.False(t, seen[w.String()], "two workloads are called %s", w)
		seen[w.String()] = true
	}
}

func TestObjectsSayWhenTheyWereSent(t *testing.T) {
	for _, r := range append(slices.Clone(resources), flunders) {
		body := r.body("a", "12")
		var object map[string]any
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if got := quotedAfter(body, versionBefore); got != "12" {
			t.Errorf("resourceVersion is %q in %s", got, body)
		}
		if got := quotedAfter(body, sentBefore); got == "" || contentOf(object, r)["sent"] != got {
			t.Errorf("sent is %q in %s", got, body)
		}
	}
}

func TestTheVersionOfAListIsNotThatOfAnItem(t *testing.T) {
	version, err := versionOf([]byte(`{"items":[{"metadata":{"resourceVersion":"7"}}],"metadata":{"continue":"x","resourceVersion":"9"}}`))
	require.NoError(t, err)
	assert.Equal(t, "9", version)
	_, err = versionOf([]byte("no list"))
	require.ErrorContains(t, err, "cannot read a list")
}

func contentOf(object map[string]any, r resource) map[string]any {
	if r.content == "" {
		object = object["metadata"].(map[string]any)
	}
	return object[cmp.Or(r.content, "annotations")].(map[string]any)
}

func TestProcessorTimeAndMemoryOfAProcess(t *testing.T) {
	self := process.Process{Service: "bench", PID: os.Getpid()}
	start, err := self.CPU()
	require.NoError(t, err)
	for {
		now, err := self.CPU()
		if err != nil || now < start {
			t.Fatalf("%s after %s: %v", now, start, err)
		}
		if now > start {
			break
		}
	}
	if now, most, err := self.Resident(); err != nil || now < 1 || now > most || most > 10_000 {
		t.Errorf("%v MB, at most %v: %v", now, most, err)
	}
	if _, err := (process.Process{Service: "nobody", PID: 1 << 22}).CPU(); err == nil {
		t.Error("a process that does not exist has processor time")
	}
}

func TestSystemCallsOfAProcess(t *testing.T) {
	self := []process.Process{{Service: "bench", PID: os.Getpid()}}
	_, before, err := process.CountsOf(self)
	require.NoError(t, err)
	const calls = 100
	for range calls {
		if _, err := os.ReadFile("/proc/self/status"); err != nil {
			t.Fatal(err)
		}
	}
	if switches, after, err := process.CountsOf(self); err != nil || after-before < calls || switches == 0 {
		t.Errorf("%d system calls, %d context switches: %v", after-before, switches, err)
	}
	if _, _, err := process.CountsOf([]process.Process{{Service: "nobody", PID: 1 << 22}}); err == nil {
		t.Error("a process that does not exist has system calls")
	}
}

func TestARunGoesOnOnlyFromWhatIsWhole(t *testing.T) {
	whole := func() *measured {
		m := &measured{Rounds: 2}
		for range oneProcessorWorkloads() {
			one := &row{Rounds: map[string]map[measure][]float64{}}
			for _, s := range sides() {
				one.Rounds[s.Name] = map[measure][]float64{p50: {1, 2}}
			}
			m.Rows = append(m.Rows, one)
		}
		return m
	}
	n := len(oneProcessorWorkloads())
	assert.True(t, whole().ended(n, sides()))
	for name, change := range map[string]func(*measured){
		"a workload is missing": func(m *measured) { m.Rows = m.Rows[1:] },
		"a side is missing":     func(m *measured) { delete(m.Rows[0].Rounds, tripod) },
		"a round is missing":    func(m *measured) { m.Rows[0].Rounds[tripod][p50] = []float64{1} },
	} {
		m := whole()
		change(m)
		assert.False(t, m.ended(n, sides()), name)
	}
}

func TestOneProcessorIsSetForEachSide(t *testing.T) {
	all := oneProcessorSides(sides())
	for i, s := range all {
		assert.Equal(t, sides()[i].Name, s.Name)
		assert.Equal(t, []string{"GOMAXPROCS=1"}, s.env)
	}
	r := exampleReport()
	r.OneProcessor = newReport(&options{rounds: 1, sides: all[:1:1]})
	r.OneProcessor.sides = []side{all[0], all[2]}
	for i, s := range r.OneProcessor.sides {
		for _, w := range oneProcessorWorkloads() {
			v := values{cpuPerRequest: 1, p50: 2}
			if w.fanOut {
				v = values{cpuPerEvent: 10 + float64(i), p50: 2}
			}
			r.OneProcessor.add(s, w, alone, v)
		}
	}
	r.finish()
	var output bytes.Buffer
	require.NoError(t, table.Write(&output, r.tables()))
	text := strings.Join(strings.Fields(output.String()), " ")
	for _, line := range []string{
		"One processor of Go for each process: watches", "WATCH 1000 ConfigMaps certificates 20 10.0 ×1.10",
		"one processor of Go: CPU per event, 1,000 watchers none ≤ 1 1.10 **not met**", "one processor of Go: p50 of events none ≤ 1.2 1.00 met",
	} {
		assert.Contains(t, text, line)
	}
	assert.Empty(t, r.OneProcessor.Aims)
}

func TestVariantsAreComparedWithTheFirst(t *testing.T) {
	sides := []side{{Name: "on"}, {Name: "off"}}
	r := newReport(&options{rounds: 1, sides: sides})
	w := workload{Name: "GET", Resource: "ConfigMaps", Credentials: certificates, Rate: 100}
	for i, s := range sides {
		r.add(s, w, alone, values{cpuPerRequest: float64(1 + i)})
		r.add(s, w, memory, values{cpuPerRequest: float64(2 + i)})
	}
	r.finish()
	var output bytes.Buffer
	require.NoError(t, table.Write(&output, r.tables()))
	for _, line := range []string{"GET ConfigMaps certificates 100 1.00 ×2.00", "GET (neighbour: memory) ConfigMaps certificates 100 2.00 ×1.50"} {
		assert.Contains(t, strings.Join(strings.Fields(output.String()), " "), line, "no %q in\n%s", line, output.String())
	}
	assert.Empty(t, r.Aims, "aims are judged without stock")
}

func TestTheNeighbourGoesRoundItsWholeMemory(t *testing.T) {
	next := cycle(1000)
	at, steps := next[0], 1
	for ; at != 0; at = next[at] {
		steps++
	}
	assert.Equal(t, len(next), steps, "the cycle has %d entries of %d", steps, len(next))
}

// exampleReport has two rounds of a workload, twice as dear as stock, and a crowd.
func exampleReport() *report {
	sides := []side{{Name: stock}, {Name: tripod}}
	r := newReport(&options{rounds: 2, sides: sides})
	w := workload{Name: "GET", Resource: "ConfigMaps", Credentials: certificates, Rate: 100}
	for i, name := range []string{stock, tripod, stock, tripod} {
		s := side{Name: name}
		factor := 1 + float64(i%2)
		r.add(s, w, alone, values{cpuPerRequest: 0.4 * factor, cpuWhenBusy: 2 / factor, p99: 5, perSecond: 1000, failures: float64(i)})
		r.start(s, time.Second)
		if i > 1 {
			continue
		}
		now := time.Unix(1000, 0)
		c := &crowd{Side: name, Began: map[string]time.Time{}, Memory: map[string]map[string]float64{
			installed: {kubeAPIServer: 1000}, wasRead: {kubeAPIServer: 1000}, fresh: {"kube-apiserver-2": 500},
		}}
		if name == tripod {
			c.Memory = map[string]map[string]float64{
				installed: {core: 200, extensions: 600, aggregator: 100}, wasRead: {core: 200, extensions: 800, aggregator: 100},
				fresh: {"core-2": 200, "extensions-2": 400},
			}
		}
		for i, phase := range phases {
			c.Began[phase] = now.Add(time.Duration(i) * 10 * time.Second)
			c.requests = append(c.requests, observed{c.Began[phase], time.Duration((i+1)*100) * time.Millisecond, false})
		}
		c.Ended = now.Add(50 * time.Second)
		r.Crowds = append(r.Crowds, c)
	}
	r.finish()
	return r
}

// noisyReport has three workloads, and stock that differs from stock by these ratios.
func noisyReport(ratios ...float64) *report {
	r := newReport(&options{rounds: 1, sides: sides()})
	for i, ratio := range ratios {
		w := workload{Name: fmt.Sprintf("W%d", i), Resource: "ConfigMaps", Credentials: certificates}
		r.add(side{Name: stock}, w, alone, values{cpuPerRequest: 2})
		r.add(side{Name: noise}, w, alone, values{cpuPerRequest: 2 * ratio})
		r.add(side{Name: tripod}, w, alone, values{cpuPerRequest: 5})
	}
	r.finish()
	return r
}

func TestFiguresOfANoisyMachineAreNotPublished(t *testing.T) {
	for name, test := range map[string]struct {
		report *report
		want   string
	}{
		"half of the workloads differ little": {noisyReport(1.05, 0.97, 2), ""},
		"half of the workloads differ much":   {noisyReport(1.05, 0.8, 1.3), "CPU ms/request of half of the workloads differs by ×1.25"},
		"the noise was not measured":          {exampleReport(), "the noise of the machine was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := &options{artifacts: dir, docs: filepath.Join(dir, "page.md"), maxNoise: 1.1}
			err := o.write(test.report)
			_, missing := os.Stat(o.docs)
			if test.want == "" {
				require.NoError(t, err)
				require.NoError(t, missing)
			} else {
				require.ErrorContains(t, err, test.want)
				require.ErrorIs(t, missing, fs.ErrNotExist)
			}
			require.FileExists(t, filepath.Join(dir, "results.json"), "figures are kept in any case")
		})
	}
	var output bytes.Buffer
	require.NoError(t, table.Write(&output, noisyReport(1.05, 0.8, 1.3).tables()))
	assert.Contains(t, strings.Join(strings.Fields(output.String()), " "), "CPU ms/request ×1.25 ×1.30")
}

func TestARunCountsOnlyIfEachWatchGotEachEvent(t *testing.T) {
	for name, test := range map[string]struct {
		events []int64
		want   string
	}{
		"each got each":              {[]int64{3, 3}, ""},
		"one got less":               {[]int64{3, 2}, "1 of 2 watches did not get exactly the 3 events"},
		"one got what another lacks": {[]int64{4, 2}, "2 of 2 watches"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watchers{delivered: load.NewTimes(), count: len(test.events), lastEvents: time.Millisecond}
			for _, n := range test.events {
				got := &atomic.Int64{}
				event := strings.NewReader(strings.Repeat(sentBefore+"1\"\n", int(n)))
				w.events = append(w.events, got)
				w.read(t.Context(), event, got)
			}
			err := w.wait(t.Context(), 3)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			var incomplete *incompleteError
			require.ErrorAs(t, err, &incomplete)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAimsAreJudgedByTheWorst(t *testing.T) {
	found := map[string]found{}
	for _, a := range exampleReport().Aims {
		name, _, _ := strings.Cut(a.What, ",")
		found[name] = a.Found[tripod]
	}
	for _, want := range []struct {
		aim   string
		value float64
		met   bool
	}{
		{"CPU per GET", 2, false},
		{"p99 at equal load", 1, true},
		{"start to ready", 1, true},
		{"p99 of core GETs at 100/s while the CRDs are installed", 1, false},
		{"resident memory of core with the CRDs", 0.2, true},
		{"resident memory of all services", 1.1, false},
		{"resident memory", 1300.0 / 1500, false}, // one more core, and no more extensions
	} {
		if got := found[want.aim]; got.Value < want.value-0.01 || got.Value > want.value+0.01 || got.Met != want.met {
			t.Errorf("%s: %+v, want %v, met %v", want.aim, got, want.value, want.met)
		}
	}
	if _, judged := found["CPU per LIST 500"]; judged {
		t.Error("an aim is judged of which nothing was measured")
	}
}

func TestPhasesHaveTheirOwnRequests(t *testing.T) {
	for i, p := range exampleReport().Phases[:len(phases)] {
		if want := float64(i+1) * 100; p.Count != 1 || p.P99 < want || p.P99 > want*1.01 {
			t.Errorf("%s: %d requests, p99 %v ms, want one of %v ms", p.Name, p.Count, p.P99, want)
		}
	}
}

func TestTablesShowRatiosAndFailures(t *testing.T) {
	var output bytes.Buffer
	require.NoError(t, table.Write(&output, exampleReport().tables()))
	for _, line := range []string{
		"GET ConfigMaps certificates 100 0.40 ×2.00 2.00 ×0.50 - - - - 5.00 ×1.00 - - 1000 ×1.00 6 0",
		"idle, % of a CPU",
		"after a read of their OpenAPI tripod aggregator 100, core 200, extensions 800 1100 ×1.10",
	} {
		assert.Contains(t, strings.Join(strings.Fields(output.String()), " "), line, "no %q in\n%s", line, output.String())
	}
}

func TestAPIServicesOfOthersAreComparedWithStock(t *testing.T) {
	r := exampleReport()
	r.APIServices = &apiServices{
		report:      newReport(&options{rounds: 1, sides: apiServiceSides()}),
		Failovers:   map[string][]failover{stock: {{Requests: 100, Failed: 50, Seconds: 10, Endless: true}}, ownBackend: {{Requests: 100}}},
		Revocations: map[string][]float64{stock: {9, 3, 5}, ownBackend: {2}},
	}
	for i, s := range apiServiceSides() {
		for _, w := range apiServiceWorkloads() {
			measured := values{cpuPerRequest: 4 - float64(i), cpuWhenBusy: 2}
			if w.fanOut {
				measured = values{cpuPerEvent: 10}
			}
			r.APIServices.add(s, w, alone, measured)
		}
	}
	r.finish()
	var output bytes.Buffer
	require.NoError(t, table.Write(&output, r.tables()))
	text := strings.Join(strings.Fields(output.String()), " ")
	for _, line := range []string{
		"GET flunders certificates 500 4.00 ×0.75 ×0.50 2.00 ×1.00 ×1.00",
		"stock - 10.0 [still after 10] 50 of 100 5.00 9.00", "backend - - [none failed] 0 of 100 2.00 2.00",
		"CPU per GET, LIST, CREATE of an API service none ≤ 0.6 0.50 met", "the same of 16 busy clients none ≤ 0.6 1.00 **not met**",
	} {
		assert.Contains(t, text, line)
	}
	require.Len(t, r.APIServices.Rows, 4)
}

func TestPageAndGraphAreWritten(t *testing.T) {
	path := t.TempDir() + "/benchmarks.md"
	for range remembered + 1 {
		require.NoError(t, exampleReport().writeDocs(path))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{"## Worse than stock", "- GET (ConfigMaps, certificates): CPU ms/request ×2.00", "(" + graphFile + ")", "**not met**"} {
		assert.Contains(t, string(page), want, "no %q in\n%s", want, page)
	}
	assert.Equal(t, remembered, strings.Count(string(page), "GET, CPU ms/request at most | 2.00 | ×0.50 |"), "former runs in\n%s", page)
	points := exampleReport().graph().Panels[0].Lines[0].Points
	if first := (graph.Point{Second: -7.5, Milliseconds: 100}); len(points) != 10 || points[0].Second != first.Second {
		t.Errorf("points of the graph: %v, want 10 from %v", points, first)
	}
}

func TestArguments(t *testing.T) {
	o, err := parse([]string{"-short", "-run", "GET/.*/tokens", "-sides", "tripod,stock"})
	require.NoError(t, err)
	if o.rounds != 1 || len(o.crds) != 60 || len(o.selected()) != 2 || len(o.sides) != 2 {
		t.Errorf("%+v", o)
	}
	for _, wrong := range [][]string{
		{"-sides", "other"}, {"-rounds", "0"}, {"-o", "xml"}, {"GET"}, {"-run", "("}, {"-crds", t.TempDir()},
		{"-sides", ""}, {"-neighbour", "loud"}, {"-variant", "a"}, {"-variant", "stock=a"}, {"-variant", "a=b", "-variant", "a=c"},
		{"-variant-env", "a=A=b"}, {"-variant", "a=b", "-variant-env", "a=A"}, {"-variant", "a=b", "-docs", "page"},
		{"-sides", "stock,tripod", "-docs", "page"},
	} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
	o, err = parse([]string{"-sides", "", "-variant", "on=a", "-variant", "off=b", "-variant-env", "off=A=b=c", "-neighbour", "both"})
	require.NoError(t, err)
	if len(o.sides) != 2 || filepath.Base(o.sides[1].binaries) != "b" || !slices.Equal(o.sides[1].env, []string{"A=b=c"}) || len(o.conditions) != 2 {
		t.Errorf("%+v", o)
	}
	var list bytes.Buffer
	if err := listParts(&list); !errors.Is(err, errListed) || strings.Count(list.String(), "\n") != len(workloads())+4 {
		t.Errorf("list: %v\n%s", err, list.String())
	}
}
