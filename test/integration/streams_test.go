// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

func TestExecPassesItsStreams(t *testing.T) {
	t.Parallel()
	_, namespace, pod := newPod(t)
	url := podURL(t, namespace, pod, "exec", &corev1.PodExecOptions{
		Container: "main", Command: []string{"cat", "-"}, Stdin: true, Stdout: true,
	})
	for protocol, newExecutor := range map[string]func(*rest.Config) (remotecommand.Executor, error){
		"SPDY": func(config *rest.Config) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
		},
		"WebSocket": func(config *rest.Config) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			executor, err := newExecutor(cluster.Admin())
			var stdout bytes.Buffer
			err = must(t, executor, err).StreamWithContext(t.Context(), remotecommand.StreamOptions{
				Stdin: strings.NewReader(strings.Repeat("hello\n", 10000)), Stdout: &stdout,
			})
			if got, want := stdout.String(), "[cat -]: "+strings.Repeat("hello\n", 10000); err != nil || got != want {
				t.Errorf("%v: got %d bytes, want %d: %.100q", err, len(got), len(want), got)
			}

			executor, err = newExecutor(user(t, "mallory"))
			err = must(t, executor, err).StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), "forbidden") && !strings.Contains(err.Error(), "403") {
				t.Errorf("exec without permission: %v", err)
			}
		})
	}
}

func TestATokenInTheWebSocketProtocolIsTheUsers(t *testing.T) {
	t.Parallel()
	_, namespace, pod := newPod(t)
	bind(t, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace, APIGroup: rbacv1.GroupName},
		rbacv1.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}})
	url := podURL(t, namespace, pod, "exec", &corev1.PodExecOptions{Container: "main", Command: []string{"cat"}, Stdin: true, Stdout: true})
	token := serviceAccountToken(t, namespace, "default")
	resp := request(t, cluster.Anonymous(), http.MethodGet, url.RequestURI(), map[string][]string{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-WebSocket-Version": {"13"}, "Sec-WebSocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		"Sec-WebSocket-Protocol": {"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)) + ", v5.channel.k8s.io"},
	}, nil)
	if resp.Code != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Protocol") != "v5.channel.k8s.io" {
		t.Errorf("got %d, protocol %q: %s", resp.Code, resp.Header.Get("Sec-WebSocket-Protocol"), resp.Body)
	}
}

func TestLogsAreFollowedLineByLine(t *testing.T) {
	t.Parallel()
	kubelet, namespace, pod := newPod(t)
	stream, err := kubeClient(t, cluster.Admin()).CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	defer closing(must(t, stream, err))
	lines := bufio.NewScanner(stream)
	for _, want := range []string{"one", "two", "three"} {
		// A line is sent only when the one before has arrived.
		kubelet.LogLines <- want
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	close(kubelet.LogLines)
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
}

func TestPortsAreForwarded(t *testing.T) {
	t.Parallel()
	_, namespace, pod := newPod(t)
	url := podURL(t, namespace, pod, "portforward", &corev1.PodPortForwardOptions{})
	for protocol, newDialer := range map[string]func(*rest.Config) (httpstream.Dialer, error){
		"SPDY": func(config *rest.Config) (httpstream.Dialer, error) {
			transport, upgrader, err := spdy.RoundTripperFor(config)
			return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), err
		},
		"WebSocket": func(config *rest.Config) (httpstream.Dialer, error) {
			return portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			dialer, err := newDialer(cluster.Admin())
			stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			forwarder, err := portforward.NewOnAddressesForStreaming(must(t, dialer, err), []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
			must(t, forwarder, err)
			go func() { done <- forwarder.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
			ports, err := forwarder.GetPorts()
			echo(t, "127.0.0.1:"+strconv.Itoa(int(must(t, ports, err)[0].Local)))
			close(stop)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// echo expects an address to send back what it gets.
func echo(t testing.TB, address string) {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	defer closing(must(t, connection, err))
	const message = "marco polo"
	if _, err := io.WriteString(connection, message); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(message))
	if _, err := io.ReadFull(connection, back); err != nil || string(back) != message {
		t.Errorf("got %q: %v", back, err)
	}
}

// podURL returns the URL of a subresource of a pod.
func podURL(t testing.TB, namespace, pod, subresource string, options runtime.Object) *url.URL {
	t.Helper()
	return kubeClient(t, cluster.Admin()).CoreV1().RESTClient().Post().
		Namespace(namespace).Resource("pods").Name(pod).SubResource(subresource).
		VersionedParams(options, scheme.ParameterCodec).URL()
}
