// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

const streamTimeout = 20 * time.Second

// protocols are the two ways in which a client has streams through the API server.
var protocols = []string{"SPDY", "WebSocket"}

// exec runs the workload's program in a container and returns its output.
func (s *subject) exec(ctx context.Context, protocol, pod, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	options := &corev1.PodExecOptions{Command: append([]string{"/workload"}, args...), Stdin: stdin != "", Stdout: true, Stderr: true}
	url := s.podRequest(pod, "exec").VersionedParams(options, scheme.ParameterCodec).URL()
	var executor remotecommand.Executor
	var err error
	if protocol == "WebSocket" {
		executor, err = remotecommand.NewWebSocketExecutor(s.Config(), http.MethodGet, url.String())
	} else {
		executor, err = remotecommand.NewSPDYExecutor(s.Config(), http.MethodPost, url)
	}
	if err != nil {
		return "", err
	}
	var out, errOut bytes.Buffer
	streams := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
	if stdin != "" {
		streams.Stdin = strings.NewReader(stdin)
	}
	if err := executor.StreamWithContext(ctx, streams); err != nil {
		return "", fmt.Errorf("%w: %s", err, errOut.String())
	}
	return out.String(), nil
}

func (s *subject) podRequest(pod, subresource string) *rest.Request {
	return s.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource(subresource)
}

// checkExec checks that input, output and the exit code of a program in a container come through.
func (s *subject) checkExec(t *testing.T, pod string) {
	input := strings.Repeat("through the API server, the kubelet and the runtime\n", 20000)
	for _, protocol := range protocols {
		if got, err := s.exec(t.Context(), protocol, pod, input, "cat"); err != nil || got != input {
			t.Errorf("exec by %s: %d of %d bytes came back: %v", protocol, len(got), len(input), err)
		}
		var exit utilexec.ExitError
		if _, err := s.exec(t.Context(), protocol, pod, "", "fail", "7"); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
			t.Errorf("exec by %s of what fails with 7: %v", protocol, err)
		}
	}
}

// checkLogs checks that the log of a pod is followed: without a gap, and on.
func (s *subject) checkLogs(t *testing.T, pod string) {
	ctx, cancel := context.WithTimeout(t.Context(), streamTimeout)
	defer cancel()
	last := int64(5)
	stream, err := s.Client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true, TailLines: &last}).Stream(ctx)
	if err != nil {
		t.Errorf("logs of %s: %v", pod, err)
		return
	}
	defer stream.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(stream)
	previous := -1
	for range last + 3 { // the last three are written while it is followed
		if !lines.Scan() {
			t.Errorf("logs of %s end after line %d: %v", pod, previous, lines.Err())
			return
		}
		n, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "line "))
		if err != nil || previous >= 0 && n != previous+1 {
			t.Errorf("logs of %s: %q after line %d", pod, lines.Text(), previous)
			return
		}
		previous = n
	}
}

// checkPortForward checks that a port of a pod is reached through the API server.
func (s *subject) checkPortForward(t *testing.T, pod string) {
	for _, protocol := range protocols {
		address, stop, err := s.forward(t.Context(), protocol, s.podRequest(pod, "portforward"), 8080)
		if err != nil {
			t.Errorf("port-forward by %s: %v", protocol, err)
			continue
		}
		for range 3 {
			if body, err := get(t.Context(), "http://"+address+"/"); err != nil || strings.TrimSpace(body) != pod {
				t.Errorf("port-forward by %s to %s: %q, %v", protocol, pod, body, err)
			}
		}
		stop()
	}
}

// forward forwards a port of 127.0.0.1 to a pod's until stop is called.
func (s *subject) forward(ctx context.Context, protocol string, to *rest.Request, port int) (address string, stop func(), err error) {
	stopping, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := s.newForwarder(protocol, to, port, stopping, ready)
	if err != nil {
		return "", nil, err
	}
	go func() { done <- forwarder.ForwardPorts() }()
	stop = func() {
		close(stopping)
		<-done //nolint:errcheck // it was asked to
	}
	select {
	case <-ready:
	case err := <-done:
		return "", nil, errors.Join(errors.New("cannot forward"), err)
	case <-ctx.Done():
		stop()
		return "", nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

func (s *subject) newForwarder(protocol string, to *rest.Request, port int, stopping, ready chan struct{}) (*portforward.PortForwarder, error) {
	ports := []string{fmt.Sprintf("0:%d", port)}
	if protocol == "WebSocket" {
		dialer, err := portforward.NewSPDYOverWebsocketDialer(to.URL(), s.Config())
		if err != nil {
			return nil, err
		}
		return portforward.New(dialer, ports, stopping, ready, io.Discard, io.Discard)
	}
	transport, upgrader, err := spdy.RoundTripperFor(s.Config())
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to.URL())
	return portforward.New(dialer, ports, stopping, ready, io.Discard, io.Discard)
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
