// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tutorial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Reader follows a page.
type Reader struct {
	// Dir is the folder in which the reader is, and Env the environment of all commands.
	Dir string
	Env []string
	// NotRun does what the reader would do with a block that is marked as not run. It may be nil.
	NotRun func(Block)

	t          testing.TB
	background []*background
}

// NewReader returns a reader in a new folder.
func NewReader(t testing.TB, env []string) *Reader {
	r := &Reader{Dir: t.TempDir(), Env: env, t: t}
	t.Cleanup(r.stop)
	return r
}

// Follow follows blocks in their order, and fails the test at the first that is wrong.
func (r *Reader) Follow(blocks []Block) {
	r.t.Helper()
	for i, block := range blocks {
		shown, began := "", time.Now()
		if i+1 < len(blocks) && blocks[i+1].Language == "text" {
			shown = blocks[i+1].Content
		}
		switch {
		case block.Mark == NotRun:
			if r.NotRun != nil {
				r.NotRun(block)
			}
		case block.Language == "diff":
			r.change(block)
		case block.Language == "sh" && (block.Mark == Background || block.Mark == Beside):
			r.start(block, shown)
		case block.Language == "sh":
			r.run(block, shown)
		}
		r.t.Logf("line %d took %v", block.Line, time.Since(began).Round(100*time.Millisecond))
	}
}

// change makes the change that a block shows.
func (r *Reader) change(block Block) {
	r.t.Helper()
	git := exec.CommandContext(r.t.Context(), "git", "apply", "--whitespace=nowarn", "-")
	git.Dir, git.Stdin = r.Dir, strings.NewReader(block.Content)
	out, err := git.CombinedOutput()
	require.NoError(r.t, err, "line %d: git apply: %s", block.Line, out)
}

// reading are the commands that change nothing.
var reading = regexp.MustCompile(
	`^(tripod (status|search (get|diff))\b.*|(tripod |tripod connect \S+ --namespace \S+ -- )?kubectl .*\b(get|explain|auth can-i)\b.*)\n$`)

// reads reports whether a script can be run again, because it is one command that changes nothing.
func reads(script string) bool {
	return strings.Count(script, "\n") == 1 && reading.MatchString(script)
}

// run runs a script and compares its output. A script that only reads is run until it prints what the page shows, because a reader is slower than
// a test.
func (r *Reader) run(block Block, shown string) {
	r.t.Helper()
	r.t.Logf("line %d: %s", block.Line, block.Content)
	once := func(ctx context.Context) error { return r.try(ctx, block, shown) }
	if reads(block.Content) {
		framework.Eventually(r.t, block.Content, once)
		return
	}
	require.NoError(r.t, once(r.t.Context()))
}

// try runs a script once, and returns an error if it does not do what the page says.
func (r *Reader) try(ctx context.Context, block Block, shown string) error {
	out, err := r.script(ctx, block.Content)
	var failed *exec.ExitError
	switch {
	case block.Mark == Fails && err == nil:
		return fmt.Errorf("line %d: %s\nends without an error, and prints\n%s", block.Line, block.Content, out)
	case err != nil && (block.Mark != Fails || !errors.As(err, &failed)):
		return fmt.Errorf("line %d: %w", block.Line, err)
	case shown != "" && !pattern(shown).MatchString(normal(out)):
		return fmt.Errorf("line %d: %s\nprints\n%s\nand the page shows\n%s", block.Line, block.Content, out, shown)
	}
	return nil
}

// script runs a script, and returns what it writes. Where it goes, the reader stays.
func (r *Reader) script(ctx context.Context, script string) (string, error) {
	place := filepath.Join(r.t.TempDir(), "place")
	shell := r.shell(ctx, "trap 'pwd >"+place+"' EXIT\n"+script)
	out, err := shell.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	folder, unknown := os.ReadFile(place)
	if unknown == nil {
		r.Dir = strings.TrimSpace(string(folder))
	}
	return string(out), errors.Join(err, unknown)
}

func (r *Reader) shell(ctx context.Context, script string) *exec.Cmd {
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	shell.Dir, shell.Env = r.Dir, r.Env
	return shell
}

// background is a script that goes on while the reader goes on.
type background struct {
	shell *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// Write implements io.Writer.
func (b *background) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(data)
}

func (b *background) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// start starts a script in the background, and returns when it has printed what the page shows.
func (r *Reader) start(block Block, shown string) {
	r.t.Helper()
	if block.Mark == Background {
		r.stop()
	}
	r.t.Logf("line %d, in the background: %s", block.Line, block.Content)
	b := &background{shell: r.shell(context.Background(), "exec "+block.Content), ended: make(chan struct{})}
	b.shell.Stdout, b.shell.Stderr = b, b
	b.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(r.t, b.shell.Start())
	go func() {
		_ = b.shell.Wait()
		close(b.ended)
	}()
	r.background = append(r.background, b)
	framework.Eventually(r.t, block.Content, func(context.Context) error {
		select {
		case <-b.ended:
			r.t.Fatalf("line %d: %sends with %s\n%s", block.Line, block.Content, b.shell.ProcessState, b)
		default:
		}
		if !pattern(shown).MatchString(normal(b.String())) {
			return fmt.Errorf("it prints\n%s", b)
		}
		return nil
	})
}

// waitTimeout is how long a script in the background may take to end after Ctrl-C.
const waitTimeout = 2 * time.Minute

// stop stops the scripts in the background as Ctrl-C does, which all processes of a script get.
func (r *Reader) stop() {
	for _, b := range r.background {
		r.end(b)
	}
	r.background = nil
}

func (r *Reader) end(b *background) {
	_ = syscall.Kill(-b.shell.Process.Pid, syscall.SIGINT)
	select {
	case <-b.ended:
	case <-time.After(waitTimeout):
		_ = syscall.Kill(-b.shell.Process.Pid, syscall.SIGKILL)
		<-b.ended
		r.t.Errorf("it does not stop:\n%s", b)
	}
}
