// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestAProgramHearsThatItsClientIsGone(t *testing.T) {
	programs := map[string]func(framework.Streams){
		"reads":  func(streams framework.Streams) { _, _ = io.Copy(io.Discard, streams.Stdin) },
		"writes": func(streams framework.Streams) { _, _ = io.Copy(streams.Stdout, endless{}) },
	}
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			for does, program := range programs {
				t.Run(w.name+" to a program that "+does, func(t *testing.T) {
					started, ended := make(chan struct{}), make(chan struct{})
					p := newPod(t, cluster, w, withProgram(func(_ context.Context, _ []string, streams framework.Streams) error {
						close(started)
						program(streams)
						close(ended)
						return nil
					}))
					stdin, open := io.Pipe()
					defer open.Close()
					streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: io.Discard}
					ctx, cancel := limited(t)
					defer cancel()
					go func() { _ = p.exec(t, w, streams, "program").StreamWithContext(ctx, streams) }()
					receive(t, "the program to start", started)
					cancel()
					receive(t, "the program to end", ended)
				})
			}
		}
	})
}

func TestAForwardedPortHearsThatItsClientIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				ended := make(chan struct{})
				port := listen(t, func(c *net.TCPConn) error {
					_, _ = io.WriteString(c, "hello")
					_, _ = io.Copy(io.Discard, c)
					close(ended)
					return nil
				})
				connection, err := dial(newPod(t, cluster, w).forward(t, w, port)[0])
				require.NoError(t, err)
				if _, err := io.ReadFull(connection, make([]byte, len("hello"))); err != nil {
					t.Error(err)
				}
				assert.NoError(t, connection.Close())
				receive(t, "the connection to end", ended)
			})
		}
	})
}

func TestAClientHearsThatTheKubeletIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				end := make(chan struct{})
				p := newPod(t, cluster, w, withProgram(func(_ context.Context, _ []string, streams framework.Streams) error {
					_, err := io.WriteString(streams.Stdout, "hello")
					<-end
					return err
				}))
				defer close(end)
				stdin, open := io.Pipe()
				defer open.Close()
				greeting, stdout := io.Pipe()
				streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout}
				done := streaming(t, p.exec(t, w, streams, "program"), streams)
				if _, err := io.ReadFull(greeting, make([]byte, len("hello"))); err != nil {
					t.Error(err)
				}
				p.kubelet.CutOff()
				// Where SPDY is spoken with the kubelet, that is taken for a program that has ended well.
				if err := done(); err == nil && w.toKubelet {
					t.Error("the client takes it for a program that has ended well")
				}
			})
		}
	})
}
