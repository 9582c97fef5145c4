// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/test/framework"
)

// listen returns a port of containers on which a function serves each connection. When a test has failed, connections end with it.
func listen(t testing.TB, serve func(*net.TCPConn) error) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving errgroup.Group
	failed, fail := context.WithCancel(context.Background())
	serving.Go(func() error {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return nil //nolint:nilerr // it was closed
			}
			serving.Go(func() error {
				defer connection.Close()
				defer context.AfterFunc(failed, func() { _ = connection.Close() })()
				return serve(connection.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			fail()
		}
		assert.NoError(t, errors.Join(listener.Close(), serving.Wait()))
		fail()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// forward forwards ports until the test ends, and returns the addresses of this machine that they have.
func (p *pod) forward(t testing.TB, w way, ports ...int) []string {
	t.Helper()
	var pairs []string
	for _, port := range ports {
		pairs = append(pairs, fmt.Sprintf("0:%d", port))
	}
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dialer := w.dialer(t, p.cluster.Admin(), p.url(t, "portforward", &corev1.PodPortForwardOptions{}))
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, pairs, stop, ready, io.Discard, io.Discard)
	require.NoError(t, err)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(stop)
		assert.NoError(t, receive(t, "the end of port forwarding", done))
	})
	forwarded, err := forwarder.GetPorts()
	var addresses []string
	require.NoError(t, err)
	for _, port := range forwarded {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port.Local))))
	}
	return addresses
}

// converse sends data and expects as much in return, at the same time.
func converse(connection io.ReadWriter, send, expect string, n int64) error {
	var talking errgroup.Group
	talking.Go(func() error {
		_, err := io.Copy(connection, noise(send, n))
		return err
	})
	got, want := digestOf(io.LimitReader(connection, n)), digestOf(noise(expect, n))
	err := talking.Wait()
	if got != want {
		err = errors.Join(err, fmt.Errorf("got %s, want %s", got, want))
	}
	return err
}

func dial(address string) (*net.TCPConn, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return connection.(*net.TCPConn), nil
}

func TestPortsAreForwardedAtOnce(t *testing.T) {
	const size, connections = 16 * mib, 3
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				p := newPod(t, cluster, w)
				names := []string{"one", "two"}
				var ports []int
				for _, name := range names {
					ports = append(ports, listen(t, func(c *net.TCPConn) error { return converse(c, name+" server", name+" client", size) }))
				}
				var clients errgroup.Group
				for i, address := range p.forward(t, w, ports...) {
					for range connections {
						clients.Go(func() error {
							connection, err := dial(address)
							if err != nil {
								return err
							}
							defer connection.Close()
							if err := converse(connection, names[i]+" client", names[i]+" server", size); err != nil {
								return fmt.Errorf("port %s: %w", names[i], err)
							}
							_, err = readAllAfter(connection) // the server ends it when it has all
							return err
						})
					}
				}
				assert.NoError(t, clients.Wait())
			})
		}
	})
}

func TestAForwardedConnectionIsHalfClosedByTheClient(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				// It answers when it has received all.
				port := listen(t, func(c *net.TCPConn) error {
					got := digestOf(c)
					_, err := fmt.Fprint(c, got)
					return err
				})
				connection, err := dial(newPod(t, cluster, w).forward(t, w, port)[0])
				require.NoError(t, err)
				defer connection.Close()
				_, err = io.Copy(connection, noise("question", mib))
				got, answerErr := readAllAfter(connection)
				if want := digestOf(noise("question", mib)); errors.Join(err, answerErr) != nil || got != want {
					t.Errorf("got %q, want %q: %v, %v", got, want, err, answerErr)
				}
			})
		}
	})
}

// readAllAfter closes the sending side, and returns the answer.
func readAllAfter(connection *net.TCPConn) (string, error) {
	if err := connection.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(connection)
	return string(answer), err
}

// TestAForwardedConnectionIsHalfClosedByTheServer speaks the protocol itself: kubectl closes a connection when the server
// has sent all.
func TestAForwardedConnectionIsHalfClosedByTheServer(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				heard := make(chan string, 1)
				port := listen(t, func(c *net.TCPConn) error {
					_, err := io.Copy(c, noise("announcement", mib))
					err = errors.Join(err, c.CloseWrite())
					heard <- digestOf(c)
					return err
				})
				p := newPod(t, cluster, w)
				dialer := w.dialer(t, p.cluster.Admin(), p.url(t, "portforward", &corev1.PodPortForwardOptions{}))
				connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
				require.NoError(t, err)
				defer connection.Close()
				stream, err := openPort(connection, port)
				require.NoError(t, err)
				if got, want := digestOf(stream), digestOf(noise("announcement", mib)); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				_, err = io.Copy(stream, noise("reaction", mib))
				assert.NoError(t, errors.Join(err, stream.Close()))
				if got, want := receive(t, "the end of what the client says", heard), digestOf(noise("reaction", mib)); got != want {
					t.Errorf("the server heard %s, want %s", got, want)
				}
			})
		}
	})
}

// openPort returns a stream to a port.
func openPort(connection httpstream.Connection, port int) (httpstream.Stream, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, dataErr := connection.CreateStream(headers)
	return data, errors.Join(dataErr, failures.Close())
}
