// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
)

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "audit")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "socket")
}

func start(t *testing.T, change func(*auditfile.Options)) (w *auditfile.Writer, socket, path string) {
	t.Helper()
	o := auditfile.Options{Path: filepath.Join(t.TempDir(), "new", "audit.log")}
	if change != nil {
		change(&o)
	}
	socket = socketPath(t)
	w, err := auditfile.Start(socket, o, nil)
	require.NoError(t, err)
	return w, socket, o.Path
}

// newEvents returns what a server does with events when it writes to a socket.
func newEvents(t *testing.T, socket string, change func(*options.AuditOptions)) audit.Backend {
	t.Helper()
	o := options.NewAuditOptions()
	if change != nil {
		change(o)
	}
	require.Empty(t, Validate(socket, o))
	config := &server.Config{AuditPolicyRuleEvaluator: policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil)}
	Apply(config, socket, o)
	return config.AuditBackend
}

func event(id string) *auditinternal.Event {
	return &auditinternal.Event{AuditID: "id", RequestURI: "/" + id, Level: auditinternal.LevelMetadata, Stage: auditinternal.StageResponseComplete}
}

func TestLinesOfSeveralServicesAreWhole(t *testing.T) {
	w, socket, path := start(t, nil)
	const each = 200
	var writing sync.WaitGroup
	for service := range 3 {
		backend := newEvents(t, socket, nil)
		for range 4 {
			writing.Go(func() {
				for i := range each {
					long := strings.Repeat("a", 1+(i*997)%20000)
					if !backend.ProcessEvents(event(fmt.Sprintf("%d/%s", service, long))) {
						t.Error("an event was not taken")
					}
				}
			})
		}
	}
	writing.Wait()
	require.NoError(t, w.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(content, []byte("\n"))
	if got := len(lines) - 1; got != 3*4*each || len(lines[got]) > 0 {
		t.Errorf("%d lines and %q", got, lines[len(lines)-1])
	}
	for _, line := range lines[:len(lines)-1] {
		if !bytes.HasPrefix(line, []byte(`{"kind":"Event"`)) || !bytes.HasSuffix(line, []byte("}\n")) {
			t.Fatalf("a line is %.200s", line)
		}
	}
}

func TestTheLogIsRotated(t *testing.T) {
	w, socket, path := start(t, func(o *auditfile.Options) { o.MaxSize = 1 })
	backend := newEvents(t, socket, nil)
	for range 30 {
		backend.ProcessEvents(event(strings.Repeat("a", 100_000)))
	}
	require.NoError(t, w.Close())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "audit*.log"))
	if err != nil || len(files) < 3 {
		t.Errorf("the files are %q: %v", files, err)
	}
}

func TestTheLogMayBeStandardOutput(t *testing.T) {
	var stdout bytes.Buffer
	socket := socketPath(t)
	w, err := auditfile.Start(socket, auditfile.Options{Path: "-"}, &stdout)
	require.NoError(t, err)
	newEvents(t, socket, func(o *options.AuditOptions) { o.LogOptions.Format = "legacy" }).ProcessEvents(event("here"))
	require.NoError(t, w.Close())
	if got := stdout.String(); !strings.Contains(got, `uri="/here"`) || strings.Count(got, "\n") != 1 {
		t.Errorf("stdout has %q", got)
	}
}

func TestAModeSaysWhatBecomesOfARequestWhoseEventIsLost(t *testing.T) {
	for mode, goesOn := range map[string]bool{options.ModeBlocking: true, options.ModeBlockingStrict: false, options.ModeBatch: true} {
		t.Run(mode, func(t *testing.T) {
			w, socket, _ := start(t, func(o *auditfile.Options) { o.Path = "/dev/full" })
			backend := newEvents(t, socket, func(o *options.AuditOptions) { o.LogOptions.BatchOptions.Mode = mode })
			stop := make(chan struct{})
			require.NoError(t, backend.Run(stop))
			assert.Equal(t, goesOn, backend.ProcessEvents(event("lost")), "the request goes on")
			close(stop)
			backend.Shutdown()
			assert.NoError(t, w.Close())
			if got := newEvents(t, socket, func(o *options.AuditOptions) { o.LogOptions.BatchOptions.Mode = options.ModeBlockingStrict }).ProcessEvents(event("lost")); got {
				t.Error("an event was taken by nobody")
			}
		})
	}
}

func TestABatchIsWrittenBeforeAServerEnds(t *testing.T) {
	w, socket, path := start(t, nil)
	backend := newEvents(t, socket, func(o *options.AuditOptions) { o.LogOptions.BatchOptions.Mode = options.ModeBatch })
	stop := make(chan struct{})
	require.NoError(t, backend.Run(stop))
	for range 1000 {
		backend.ProcessEvents(event("batched"))
	}
	close(stop)
	backend.Shutdown()
	require.NoError(t, w.Close())
	content, err := os.ReadFile(path)
	if err != nil || bytes.Count(content, []byte("\n")) != 1000 {
		t.Errorf("%d lines: %v", bytes.Count(content, []byte("\n")), err)
	}
}

func TestTooLongAPathOfTheSocketIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	_, err := auditfile.Start(filepath.Join(t.TempDir(), strings.Repeat("x", 107)), auditfile.Options{Path: file}, nil)
	assert.ErrorContains(t, err, "TMPDIR")
	if _, err := os.Stat(file); err == nil {
		t.Error("a log was made nevertheless")
	}
}

func TestHalfAnEventIsNotWritten(t *testing.T) {
	w, socket, path := start(t, nil)
	killed, err := net.Dial("unix", socket)
	require.NoError(t, err)
	if _, err := killed.Write([]byte{0, 0, 1, 0, '{'}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, killed.Close())
	newEvents(t, socket, nil).ProcessEvents(event("whole"))
	require.NoError(t, w.Close())
	content, err := os.ReadFile(path)
	if err != nil || bytes.Count(content, []byte("{\"kind")) != 1 || content[0] != '{' || content[1] != '"' {
		t.Errorf("the log is %q: %v", content, err)
	}
}

func TestOptionsAreValidatedAsWithAFile(t *testing.T) {
	o := options.NewAuditOptions()
	o.LogOptions.BatchOptions.Mode = "sometimes"
	if errs := Validate("/socket", o); len(errs) != 1 {
		t.Errorf("problems: %v", errs)
	}
	if errs := Validate("", o); len(errs) != 0 {
		t.Errorf("without a socket: %v", errs)
	}
}
