// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// server is what connections are passed on to. It hands each to a function.
type server struct {
	address string
	stop    func()
}

func startServer(t *testing.T, handle func(*net.TCPConn)) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer connection.Close()
				handle(connection.(*net.TCPConn))
			})
		}
	})
	stop := sync.OnceFunc(func() {
		listener.Close()
		serving.Wait()
	})
	t.Cleanup(stop)
	return &server{address: listener.Addr().String(), stop: stop}
}

// startNamed starts a server that sends a name.
func startNamed(t *testing.T, name string) *server {
	return startServer(t, func(c *net.TCPConn) { fmt.Fprint(c, name) })
}

func start(t *testing.T) *Balancer {
	t.Helper()
	b, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		b.Serve(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return b
}

func connect(t *testing.T, b *Balancer) *net.TCPConn {
	t.Helper()
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.Port()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection.(*net.TCPConn)
}

// ask returns what n connections receive, one after the other.
func ask(t *testing.T, b *Balancer, n int) []string {
	t.Helper()
	var output []string
	for range n {
		answer, err := io.ReadAll(connect(t, b))
		require.NoError(t, err)
		output = append(output, string(answer))
	}
	return output
}

func TestServersTakeTurns(t *testing.T) {
	b := start(t)
	one, two, three := startNamed(t, "1"), startNamed(t, "2"), startNamed(t, "3")
	b.SetServers([]string{one.address, two.address}, []string{three.address})
	for _, step := range []struct {
		name   string
		change func()
		want   []string // sorted
	}{
		{"those that are ready", func() {}, []string{"1", "1", "1", "2", "2", "2"}},
		{"one cannot be reached", one.stop, []string{"2", "2", "2", "2", "2", "2"}},
		{"none that is ready can be reached", two.stop, []string{"3", "3", "3", "3", "3", "3"}},
		{"one is ready again", func() { b.SetServers([]string{three.address}, []string{one.address}) }, []string{"3", "3", "3", "3", "3", "3"}},
		{"none can be reached", three.stop, []string{"", "", "", "", "", ""}},
		{"there are none", func() { b.SetServers(nil, nil) }, []string{"", "", "", "", "", ""}},
	} {
		step.change()
		output := ask(t, b, len(step.want))
		slices.Sort(output)
		assert.Equal(t, step.want, output, "%s: answers", step.name)
	}
}

func TestConnectionsStayWhereTheyAre(t *testing.T) {
	b := start(t)
	echo := startServer(t, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // the test looks at the other end
	b.SetServers([]string{echo.address}, nil)
	connection := connect(t, b)
	for i := range 3 {
		fmt.Fprintln(connection, i)
		var got int
		if _, err := fmt.Fscanln(connection, &got); err != nil || got != i {
			t.Fatalf("got %d, %v, want %d", got, err, i)
		}
		b.SetServers(nil, nil)
	}
}

func TestEitherSideCanEndFirst(t *testing.T) {
	const large = 8 << 20
	digest := func(c *net.TCPConn) { // answers only when the client has sent everything
		n, err := io.Copy(io.Discard, c)
		fmt.Fprintf(c, "%d %v", n, err)
	}
	// The server ends first, and goes on reading.
	got := make(chan string, 1)
	farewell := func(c *net.TCPConn) {
		c.Write(bytes.Repeat([]byte("x"), large)) //nolint:errcheck // the test looks at the other end
		c.CloseWrite()                            //nolint:errcheck // the test looks at the other end
		rest, err := io.ReadAll(c)
		got <- fmt.Sprintf("%d %v", len(rest), err)
	}
	want := fmt.Sprintf("%d <nil>", large)

	b := start(t)
	b.SetServers([]string{startServer(t, digest).address}, nil)
	connection := connect(t, b)
	if _, err := connection.Write(make([]byte, large)); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, connection.CloseWrite())
	if answer, err := io.ReadAll(connection); err != nil || string(answer) != want {
		t.Errorf("the server got %q (%v), want %q", answer, err, want)
	}

	b.SetServers([]string{startServer(t, farewell).address}, nil)
	connection = connect(t, b)
	if answer, err := io.ReadAll(connection); err != nil || len(answer) != large {
		t.Errorf("the client got %d bytes (%v)", len(answer), err)
	}
	if _, err := connection.Write(make([]byte, large)); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, connection.Close())
	assert.Equal(t, want, <-got, "after its end")
}

func TestBrokenConnectionsDoNotLookEnded(t *testing.T) {
	b := start(t)
	broken := startServer(t, func(c *net.TCPConn) {
		fmt.Fprint(c, "half of it")
		io.ReadFull(c, make([]byte, 1)) //nolint:errcheck // the client has got it
		c.SetLinger(0)                  //nolint:errcheck // the test looks at the other end
	})
	b.SetServers([]string{broken.address}, nil)
	connection := connect(t, b)
	if _, err := io.ReadFull(connection, make([]byte, len("half of it"))); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(connection, "!")
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the end of the connection is %v", err)
	}
}

func TestNothingIsLeftAtTheEnd(t *testing.T) {
	b, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	silent := startServer(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) }) //nolint:errcheck // until it ends
	b.SetServers([]string{silent.address}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		b.Serve(ctx)
	}()
	connection := connect(t, b)
	cancel()
	if n, err := connection.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	<-served
	if again, err := Listen(fmt.Sprintf("127.0.0.1:%d", b.Port())); err != nil {
		t.Errorf("the address is not free: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestAddressThatIsTaken(t *testing.T) {
	b := start(t)
	if _, err := Listen(fmt.Sprintf("127.0.0.1:%d", b.Port())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error is %v", err)
	}
}
