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
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

const streamTimeout = 20 * time.Second

// protocols has the protocols of streams through the API server.
var protocols = []string{kindcluster.SPDY, kindcluster.WebSocket}

// exec runs the workload program in a container and returns its output.
func (s *subject) exec(ctx context.Context, protocol, pod, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	options := &corev1.PodExecOptions{Command: append([]string{"/workload"}, args...), Stdin: stdin != "", Stdout: true, Stderr: true}
	request := s.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec")
	url := request.VersionedParams(options, scheme.ParameterCodec).URL()
	var executor remotecommand.Executor
	var err error
	if protocol == kindcluster.WebSocket {
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

// checkExec checks that exec transports input, output and exit code.
func (s *subject) checkExec(t *testing.T, pod string) {
	input := strings.Repeat("through the API server, the kubelet and the runtime\n", 20000)
	for _, protocol := range protocols {
		if got, err := s.exec(t.Context(), protocol, pod, input, "cat"); err != nil || got != input {
			t.Errorf("exec by %s: %d of %d bytes came back: %v", protocol, len(got), len(input), err)
		}
		var exit utilexec.ExitError
		if _, err := s.exec(t.Context(), protocol, pod, "", "fail", "7"); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
			t.Errorf("exec by %s of a program with exit code 7: %v", protocol, err)
		}
	}
}

// checkLogs checks that following the log of a pod gives every line, including new ones.
func (s *subject) checkLogs(t *testing.T, pod string) {
	ctx, cancel := context.WithTimeout(t.Context(), streamTimeout)
	defer cancel()
	last := int64(5)
	stream, err := s.Client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true, TailLines: &last}).Stream(ctx)
	if err != nil {
		t.Errorf("logs of %s: %v", pod, err)
		return
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	previous := -1
	for range last + 3 { // the pod writes the last three lines during the test
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

// checkPortForward checks that port-forward reaches a port of a pod.
func (s *subject) checkPortForward(t *testing.T, pod string) {
	for _, protocol := range protocols {
		address, stop, err := s.Forward(t.Context(), protocol, namespace, pod, 8080)
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
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
