// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestScenarios compares Tripod with kube-apiserver, scenario by scenario, and writes a table. BUSY_DOCS is a page with a place for it.
func TestScenarios(t *testing.T) {
	if os.Getenv("BUSY") != "full" {
		t.Skip("BUSY=full runs it")
	}
	tbl := table{}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			tbl.note(t)
			stock := s.run(t, true)
			ours := s.run(t, false)
			if stock.count == nil || ours.count == nil {
				return // it failed, or is not possible here
			}
			tbl.add(s, "kube-apiserver", stock)
			tbl.add(s, "Tripod", ours)
			ours.expectNoWorse(t, stock.count)
		})
	}
	tbl.write(t)
}

// table is the result as Markdown.
type table struct {
	rows []string
	// loads are the loads of the machine before the scenarios, which show how much else ran.
	loads []float64
}

// note notes the load of the machine.
func (tbl *table) note(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	var load float64
	_, err = fmt.Sscan(string(text), &load)
	require.NoError(t, err)
	tbl.loads = append(tbl.loads, load)
}

var header = []string{
	"herd (replicas)", "of", "refused", "throttled", "ended", "events lost", "complete", "writes failed", "tokens refused", "ejected", "streams lost", "time",
}

func (tbl *table) add(s scenario, of string, o outcome) {
	ejected, lost := "–", "–"
	if of == "Tripod" {
		ejected, lost = fmt.Sprint(o.ejected), fmt.Sprint(o.streamsLost)
	}
	tbl.rows = append(tbl.rows, fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d of %d | %d | %d | %s | %s | %.0f s |", s.name, of, o.refused.Load(), o.askedToWait.Load(),
		o.ended.Load(), o.lost.Load(), o.complete.Load(), s.herd.watches, o.writesFailed.Load(), o.tokensRefused.Load(), ejected, lost, o.took.Seconds()))
}

func (tbl *table) write(t *testing.T) {
	t.Helper()
	if len(tbl.rows) == 0 {
		return
	}
	text := fmt.Sprintf("Measured on %s, on %d CPUs (%s/%s) with a load of %.0f to %.0f.\n\n| %s |\n|%s\n%s\n", time.Now().Format(time.DateOnly), runtime.NumCPU(),
		runtime.GOOS, runtime.GOARCH, slices.Min(tbl.loads), slices.Max(tbl.loads), strings.Join(header, " | "), strings.Repeat(" --- |", len(header)), strings.Join(tbl.rows, "\n"))
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	file := filepath.Join(root, "artifacts", "busy.md")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	t.Logf("%s\n%s", file, text)
	page := os.Getenv("BUSY_DOCS")
	if page == "" {
		return
	}
	page = filepath.Join(root, page)
	old, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(old), "<!-- busy -->\n")
	_, tail, ended := strings.Cut(rest, "<!-- end -->")
	require.True(t, found && ended, "%s has no place for the table", page)
	require.NoError(t, os.WriteFile(page, []byte(head+"<!-- busy -->\n"+text+"<!-- end -->"+tail), 0o644))
}
