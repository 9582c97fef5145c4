// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
	"github.com/tripod-k8s/tripod/test/framework"
)

// alertReport has the alerts of all faults, including those of earlier runs, in a file.
type alertReport struct {
	path    string
	mu      sync.Mutex
	Date    time.Time     `json:"date"`
	Results []alertResult `json:"results"`
}

func openAlertReport(artifacts string) (*alertReport, error) {
	r := &alertReport{path: filepath.Join(artifacts, "alerts.json")}
	return r, readReport(r.path, r)
}

// add stores a result, and replaces an earlier one.
func (r *alertReport) add(one alertResult) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(other alertResult) bool { return other.Fault == one.Fault && other.Side == one.Side }
	r.Results = append(slices.DeleteFunc(r.Results, same), one)
	r.Date = time.Now()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(r.path, append(data, '\n'))
}

// wrong returns an error if an alert fired that should not have, or one that should have did not.
func (r *alertReport) wrong() error {
	var errs []error
	for _, one := range r.Results {
		for _, wrong := range one.Wrong {
			errs = append(errs, fmt.Errorf("%s: %s: %s", one.Side, one.Fault, wrong))
		}
	}
	return errors.Join(errs...)
}

// table returns the alerts of all faults as Markdown. Results of faults that no longer exist are left out.
func (r *alertReport) table() string {
	var table strings.Builder
	tried := 0
	for _, f := range faults() {
		for _, side := range f.sides {
			i := slices.IndexFunc(r.Results, func(one alertResult) bool { return one.Fault == f.name && one.Side == side })
			if i < 0 {
				continue
			}
			if r.Results[i].LeftOut == "" {
				tried++
			}
			fmt.Fprintf(&table, "| %s | %s | %s |\n", f.name, side, r.Results[i].alerts())
		}
	}
	return fmt.Sprintf("Watched on %s, on %d CPUs (%s/%s), during %d faults.\n\n| fault | of | alerts (minute) |\n| --- | --- | --- |\n%s",
		r.Date.Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, tried, table.String())
}

// runAlerts tries the faults of Tripod while Prometheus evaluates the rules of the chart.
func (o *options) runAlerts(ctx context.Context, stdout io.Writer) error {
	repository, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	helm := filepath.Join(repository, "bin/tools/helm")
	if reason := withoutPrometheus(helm); reason != "" {
		o.say("alerts are left out: %s", reason)
		return nil
	}
	m, err := renderMonitoring(ctx, helm, repository)
	if err != nil {
		return err
	}
	r, err := openAlertReport(o.artifacts)
	if err != nil {
		return err
	}
	o.sides = slices.DeleteFunc(o.sides, func(s side) bool { return s.stock })
	err = o.breakSides(ctx, attempt{
		leftOut: func(f fault, s side, reason string) error {
			return r.add(alertResult{Fault: f.name, Side: s.name, LeftOut: reason})
		},
		try: func(ctx context.Context, c *cluster, f fault, number int) (line string, broken bool, err error) {
			one, broken, err := c.watchAlerts(ctx, f, number, max(o.lasts, alertsLast, f.atLeast), m)
			if ctx.Err() != nil {
				return "", true, ctx.Err()
			}
			if err != nil {
				one.Wrong = append(one.Wrong, err.Error())
			}
			return one.String(), broken || err != nil, r.add(one)
		},
	})
	if err != nil {
		return err
	}
	if o.docs != "" {
		if err := writeBlocks(o.docs, map[string]string{"alerts": r.table()}); err != nil {
			return err
		}
	}
	if o.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return errors.Join(encoder.Encode(r), r.wrong())
	}
	fmt.Fprintln(stdout, r.table())
	return r.wrong()
}

// readReport reads the results of earlier runs from a file, if it exists. It makes the directory.
func readReport(path string, report any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, report)
	}
	return err
}
