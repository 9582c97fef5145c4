// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// flood is how much is sent to a reader who stands still.
	flood = 80 * mib
	// underway is how much of it there may be between them. Most of that is what the kernel keeps for each of the
	// connections: up to 40 MiB on a quiet machine.
	underway = 64 * mib
)

// expectDammed expects that a sender stands still when its reader does, and that all arrives when it reads on.
func expectDammed(t *testing.T, sent *atomic.Int64, open chan struct{}, done func() error, received *digest) {
	t.Helper()
	func() {
		defer close(open) // a reader ends with a test that has failed
		if n := standsStill(t, sent); n > underway {
			t.Errorf("while nobody reads, %d MiB are sent", n/mib)
		} else {
			t.Logf("while nobody reads, %d KiB are sent", n/kib)
		}
	}()
	assert.NoError(t, done())
	if got, want := received.String(), digestOf(noise("flood", flood)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAProgramWaitsForAClientThatDoesNotRead(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				var sent atomic.Int64
				received, open := newDigest(), make(chan struct{})
				p := newPod(t, cluster, w, withProgram(func(_ context.Context, _ []string, streams framework.Streams) error {
					_, err := io.Copy(streams.Stdout, counted{noise("flood", flood), &sent})
					// When it ends, a ping that was not read may reset the connection, and overtake what is on its way.
					for err == nil && received.count.Load() < flood && t.Context().Err() == nil {
						time.Sleep(10 * time.Millisecond)
					}
					return err
				}))
				streams := remotecommand.StreamOptions{Stdout: gate{received, open}}
				done := streaming(t, p.exec(t, w, streams, "program"), streams)
				expectDammed(t, &sent, open, done, received)
			})
		}
	})
}

func TestAClientWaitsForAProgramThatDoesNotRead(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				received, open := newDigest(), make(chan struct{})
				p := newPod(t, cluster, w, withProgram(func(_ context.Context, _ []string, streams framework.Streams) error {
					_, err := io.Copy(gate{received, open}, streams.Stdin)
					return err
				}))
				var sent atomic.Int64
				streams := remotecommand.StreamOptions{Stdin: counted{noise("flood", flood), &sent}}
				done := streaming(t, p.exec(t, w, streams, "program"), streams)
				expectDammed(t, &sent, open, done, received)
			})
		}
	})
}

// streaming starts to stream, and returns a function that waits for its end.
func streaming(t *testing.T, executor remotecommand.Executor, streams remotecommand.StreamOptions) func() error {
	ctx, cancel := limited(t)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- executor.StreamWithContext(ctx, streams)
	}()
	return func() error { return <-ended }
}

func TestForwardedPortsWaitForWhoDoesNotRead(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			for _, clientReads := range []bool{true, false} {
				name := w.name + " to a server"
				if clientReads {
					name = w.name + " to a client"
				}
				t.Run(name, func(t *testing.T) {
					var sent atomic.Int64
					received, open, done := newDigest(), make(chan struct{}), make(chan error, 2)
					sender := func(c *net.TCPConn) error {
						_, err := io.Copy(c, counted{noise("flood", flood), &sent})
						_ = c.CloseWrite() // the reader has closed it when it has all
						done <- err
						return nil
					}
					reader := func(c *net.TCPConn) error {
						_, err := io.CopyN(gate{received, open}, c, flood)
						done <- err
						return nil
					}
					server, client := reader, sender
					if clientReads {
						server, client = sender, reader
					}
					connection, err := dial(newPod(t, cluster, w).forward(t, w, listen(t, server))[0])
					require.NoError(t, err)
					defer connection.Close()
					go func() { _ = client(connection) }()
					expectDammed(t, &sent, open, func() error {
						if err := receive(t, "one end", done); err != nil {
							return err
						}
						return receive(t, "the other end", done)
					}, received)
				})
			}
		}
	})
}
