// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	utilexec "k8s.io/utils/exec"

	"github.com/tripod-k8s/tripod/test/framework"
)

// execCase is a program, what it gets, and what is to come of it.
type execCase struct {
	name    string
	program framework.Program
	stdin   func() io.Reader
	// stdout and stderr are what is expected. Without stderr, the client does not ask for it.
	stdout, stderr func() io.Reader
	// fails checks the error, if there is to be one.
	fails func(error) error
	// cut is set where the end of the output may be missing, and an error take its place.
	cut bool
}

func none() io.Reader { return strings.NewReader("") }

var execCases = []execCase{
	{
		// More than all windows of HTTP/2 and SPDY, and over long before the first ping of client-go, after 5 s: the kubelet closes the connection when
		// the program ends, a ping that it has not read resets the connection, and client-go takes lost output without a status for success.
		name:    "8 MiB come back",
		program: framework.Cat,
		stdin:   func() io.Reader { return noise("echo", 8*mib) },
		stdout:  func() io.Reader { return noise("echo", 8*mib) },
	},
	{
		name: "stdout and stderr are kept apart",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			out, err := noise("stdout", 4*mib), noise("stderr", 3*mib)
			for range 4 * mib / (16 * kib) {
				_, failedOut := io.CopyN(streams.Stdout, out, 16*kib)
				_, failedErr := io.CopyN(streams.Stderr, err, 12*kib)
				if failed := errors.Join(failedOut, failedErr); failed != nil {
					return failed
				}
			}
			return nil
		},
		stdout: func() io.Reader { return noise("stdout", 4*mib) },
		stderr: func() io.Reader { return noise("stderr", 3*mib) },
	},
	{
		name: "output goes on when stdin has ended",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			got := digestOf(streams.Stdin)
			_, err := io.Copy(streams.Stdout, io.MultiReader(strings.NewReader(got), noise("after the end", 8*mib)))
			return err
		},
		stdin: func() io.Reader { return noise("before the end", mib) },
		stdout: func() io.Reader {
			return io.MultiReader(strings.NewReader(digestOf(noise("before the end", mib))), noise("after the end", 8*mib))
		},
	},
	{
		name: "a stdin without anything ends",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			_, err := fmt.Fprint(streams.Stdout, digestOf(streams.Stdin))
			return err
		},
		stdin:  none,
		stdout: func() io.Reader { return strings.NewReader(digestOf(none())) },
	},
	{
		name: "the program ends while the client writes",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			_, err := io.CopyN(streams.Stdout, streams.Stdin, 100*kib)
			return err
		},
		stdin:  func() io.Reader { return endless{} },
		stdout: func() io.Reader { return io.LimitReader(endless{}, 100*kib) },
		// A container runtime closes the connection when the program ends. Bytes that it has not read reset the connection, and
		// that overtakes what is on its way.
		cut: true,
	},
	{
		name: "the program ends while stdin is open",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			_, err := io.CopyN(streams.Stdout, streams.Stdin, mib)
			return err
		},
		stdin: func() io.Reader {
			open, _ := io.Pipe()
			return io.MultiReader(noise("then nothing", mib), open)
		},
		stdout: func() io.Reader { return noise("then nothing", mib) },
	},
	{
		name: "all output comes before the exit code",
		program: func(_ context.Context, _ []string, streams framework.Streams) error {
			_, failedOut := io.Copy(streams.Stdout, noise("stdout", 2*mib))
			_, failedErr := io.Copy(streams.Stderr, noise("stderr", 2*mib))
			if failed := errors.Join(failedOut, failedErr); failed != nil {
				return failed
			}
			return utilexec.CodeExitError{Err: errors.New("it ends with 7"), Code: 7}
		},
		stdout: func() io.Reader { return noise("stdout", 2*mib) },
		stderr: func() io.Reader { return noise("stderr", 2*mib) },
		fails: func(err error) error {
			var exit clientexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 7 {
				return fmt.Errorf("want exit code 7, got %T: %w", err, err)
			}
			return nil
		},
	},
	{
		name:    "a program does not start, with a reason",
		program: nil,
		stdout:  none,
		fails: func(err error) error {
			if err == nil || !strings.Contains(err.Error(), `there is no program ["program"]`) {
				return fmt.Errorf("the error is not that of the container runtime: %w", err)
			}
			return nil
		},
	},
}

func TestExec(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				for _, c := range execCases {
					t.Run(c.name, func(t *testing.T) { c.run(t, cluster, w) })
				}
			})
		}
	})
}

func (c execCase) run(t *testing.T, cluster *framework.Cluster, w way) {
	p := newPod(t, cluster, w, withProgram(c.program))
	stdout, stderr := newDigest(), newDigest()
	streams := remotecommand.StreamOptions{Stdout: stdout}
	if c.stdin != nil {
		streams.Stdin = c.stdin()
	}
	if c.stderr != nil {
		streams.Stderr = stderr
	}
	ctx, cancel := limited(t)
	defer cancel()
	err := p.exec(t, w, streams, "program").StreamWithContext(ctx, streams)
	if c.cut && ctx.Err() == nil && stdout.count.Load() <= size(c.stdout()) {
		return
	}
	if c.fails != nil {
		err = c.fails(err)
	}
	assert.NoError(t, err)
	if got, want := stdout.String(), digestOf(c.stdout()); got != want {
		t.Errorf("stdout: got %s, want %s", got, want)
	}
	if c.stderr == nil {
		return
	}
	if got, want := stderr.String(), digestOf(c.stderr()); got != want {
		t.Errorf("stderr: got %s, want %s", got, want)
	}
}

// terminal is one whose user changes its size.
type terminal chan remotecommand.TerminalSize

// Next returns the next size.
func (s terminal) Next() *remotecommand.TerminalSize {
	if size, ok := <-s; ok {
		return &size
	}
	return nil
}

// showSizes writes each size of its terminal in a line, and then echoes.
func showSizes(ctx context.Context, args []string, streams framework.Streams) error {
	if !streams.TTY || streams.Stderr != nil {
		return fmt.Errorf("it has a terminal: %t, and a stderr: %t", streams.TTY, streams.Stderr != nil)
	}
	for range 3 {
		size := <-streams.Resize
		if _, err := fmt.Fprintf(streams.Stdout, "%dx%d\n", size.Width, size.Height); err != nil {
			return err
		}
	}
	return framework.Cat(ctx, args, streams)
}

func TestATerminalIsResized(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			for _, subresource := range []string{"exec", "attach"} {
				t.Run(subresource+" by "+w.name, func(t *testing.T) {
					p := newPod(t, cluster, w, withProgram(showSizes), func(k *framework.Kubelet) { k.Main = showSizes })
					sizes := make(terminal, 3)
					for i := range uint16(3) {
						sizes <- remotecommand.TerminalSize{Width: 80 + i, Height: 24 + i}
					}
					defer close(sizes)
					var stdout bytes.Buffer
					streams := remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &stdout, Tty: true, TerminalSizeQueue: sizes}
					executor := p.attach(t, w, streams)
					if subresource == "exec" {
						executor = p.exec(t, w, streams, "program")
					}
					ctx, cancel := limited(t)
					defer cancel()
					err := executor.StreamWithContext(ctx, streams)
					if got, want := stdout.String(), "80x24\n81x25\n82x26\ntyped"; err != nil || got != want {
						t.Errorf("got %q, want %q: %v", got, want, err)
					}
				})
			}
		}
	})
}

func TestAttach(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				p := newPod(t, cluster, w, func(k *framework.Kubelet) {
					k.Main = func(_ context.Context, _ []string, streams framework.Streams) error {
						_, err := fmt.Fprint(streams.Stderr, digestOf(io.TeeReader(streams.Stdin, streams.Stdout)))
						return err
					}
				})
				var stderr bytes.Buffer
				stdout := newDigest()
				streams := remotecommand.StreamOptions{Stdin: noise("attach", 4*mib), Stdout: stdout, Stderr: &stderr}
				ctx, cancel := limited(t)
				defer cancel()
				err := p.attach(t, w, streams).StreamWithContext(ctx, streams)
				if want := digestOf(noise("attach", 4*mib)); err != nil || stdout.String() != want || stderr.String() != want {
					t.Errorf("stdout: %s, stderr: %s, want %s: %v", stdout, &stderr, want, err)
				}
			})
		}
	})
}
