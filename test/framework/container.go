// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// streamIdleTimeout is the --streaming-connection-idle-timeout of the kubelet.
const streamIdleTimeout = 4 * time.Hour

// Streams are the streams of a program in a container. A stream that the client did not ask for is nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.WriteCloser
	TTY            bool
	// Resize gets the sizes of the terminal.
	Resize <-chan remotecommand.TerminalSize
}

// Program runs in a container. Its exit code is that of an error of k8s.io/utils/exec.
type Program func(ctx context.Context, args []string, streams Streams) error

// Cat sends its input back.
func Cat(_ context.Context, _ []string, streams Streams) error {
	if streams.Stdin == nil || streams.Stdout == nil {
		return nil
	}
	_, err := io.Copy(streams.Stdout, streams.Stdin)
	return err
}

// newRuntime returns the server of streams that containerd and CRI-O use.
func (k *Kubelet) newRuntime() http.Handler {
	c := containers{k}
	command := func(serve func(w http.ResponseWriter, req *http.Request, options *remotecommand.Options)) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			options, err := remotecommand.NewOptions(req)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			serve(w, req, options)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", command(func(w http.ResponseWriter, req *http.Request, options *remotecommand.Options) {
		remotecommand.ServeExec(w, req, c, req.PathValue("pod"), "", req.PathValue("container"), req.URL.Query()["command"], options,
			streamIdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	}))
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", command(func(w http.ResponseWriter, req *http.Request, options *remotecommand.Options) {
		remotecommand.ServeAttach(w, req, c, req.PathValue("pod"), "", req.PathValue("container"), options,
			streamIdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	}))
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, req *http.Request) {
		options, err := portforward.NewV4Options(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, req, c, req.PathValue("pod"), "", options,
			streamIdleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	})
	return mux
}

// containers are the containers of a kubelet, as the container runtime's server of streams sees them.
type containers struct{ kubelet *Kubelet }

// ExecInContainer runs a program.
func (c containers) ExecInContainer(
	ctx context.Context, _, _, _ string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if len(command) == 0 || c.kubelet.Programs[command[0]] == nil {
		return fmt.Errorf("there is no program %q", command)
	}
	return c.kubelet.Programs[command[0]](ctx, command[1:], Streams{Stdin: in, Stdout: out, Stderr: err, TTY: tty, Resize: resize})
}

// AttachContainer connects the client to the main program.
func (c containers) AttachContainer(
	ctx context.Context, _, _, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	return c.kubelet.Main(ctx, nil, Streams{Stdin: in, Stdout: out, Stderr: err, TTY: tty, Resize: resize})
}

// PortForward connects a stream with a port of this machine. Either end may stop sending and still receive.
func (c containers) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	dialed, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	connection := dialed.(*net.TCPConn)
	defer connection.Close() //nolint:errcheck // both ends know already
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(connection, stream)
		_ = connection.CloseWrite() // the program may have closed it
		ended <- err
	}()
	go func() {
		_, err := io.Copy(stream, connection)
		_ = stream.Close() // the client may have closed it
		ended <- err
	}()
	if err := <-ended; err != nil {
		return err // ends the other direction
	}
	return <-ended
}
