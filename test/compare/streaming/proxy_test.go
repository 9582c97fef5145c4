// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// application is a web server that is reached by the proxy of nodes, pods and services.
type application struct {
	// lines are sent to clients that get /lines.
	lines chan string
	mux   *http.ServeMux
}

const (
	downloadSize = 32 * mib
	tunnelSize   = 4 * mib
)

func newApplication() *application {
	a := &application{lines: make(chan string), mux: http.NewServeMux()}
	a.mux.HandleFunc("/lines", func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-a.lines:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-req.Context().Done():
				return
			}
		}
	})
	a.mux.HandleFunc("/download", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, noise("download", downloadSize)) })
	a.mux.HandleFunc("/upload", func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, digestOf(req.Body)) })
	a.mux.HandleFunc("/request", func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusTeapot) // passed on also where an upgrade was asked for
		fmt.Fprintln(w, req.Method, req.RequestURI, req.Proto, req.Host)
		var headers []string
		for name, values := range req.Header {
			headers = append(headers, fmt.Sprintf("%s: %q\n", name, values))
		}
		sort.Strings(headers)
		fmt.Fprint(w, strings.Join(headers, ""))
	})
	a.mux.HandleFunc("/tunnel", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", req.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		connection, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		_ = converse(struct {
			io.Reader
			io.Writer
		}{buffered, connection}, "server", "client", tunnelSize)
	})
	return a
}

// publish makes an application the web server of a pod on the test's machine, of a service and of a node, and returns the
// paths at which an API server proxies it.
func (a *application) publish(t *testing.T, cluster *framework.Cluster) map[string]string {
	t.Helper()
	address := framework.HostAddress(t)
	kubelet := framework.NewKubeletOn(listenOn(t, address), func(err error) { t.Log("kubelet:", err) })
	kubelet.Other = a.mux
	p := newPodOf(t, cluster, kubelet)
	server := httptest.NewUnstartedServer(a.mux)
	_ = server.Listener.Close() // it has not been used
	server.Listener = listenOn(t, address)
	server.Start()
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port

	client := kubeClient(t, cluster.Admin())
	created, err := client.CoreV1().Pods(p.namespace).Get(t.Context(), p.name, metav1.GetOptions{})
	require.NoError(t, err)
	created.Status.PodIPs = []corev1.PodIP{{IP: address}}
	created.Status.PodIP = address
	_, err = client.CoreV1().Pods(p.namespace).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	a.publishService(t, cluster, p, address, port)
	return map[string]string{
		"node":    "/api/v1/nodes/" + p.node + "/proxy",
		"pod":     "/api/v1/namespaces/" + p.namespace + "/pods/" + p.name + ":" + strconv.Itoa(port) + "/proxy",
		"service": "/api/v1/namespaces/" + p.namespace + "/services/service:web/proxy",
	}
}

// publishService makes a pod the only one of its service, and waits until the API server proxies to it.
func (a *application) publishService(t *testing.T, cluster *framework.Cluster, p *pod, address string, port int) {
	t.Helper()
	client := kubeClient(t, cluster.Admin())
	_, err := client.CoreV1().Services(p.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "service"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	//nolint:staticcheck // Before Kubernetes 1.37, the proxy of services goes by Endpoints.
	_, err = client.CoreV1().Endpoints(p.namespace).Create(t.Context(), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "service"},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: address, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.namespace, Name: p.name}}},
			Ports:     []corev1.EndpointPort{{Name: "web", Port: int32(port)}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.DiscoveryV1().EndpointSlices(p.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "service", Labels: map[string]string{discoveryv1.LabelServiceName: "service"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.namespace, Name: p.name},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(port))}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "the API server has the endpoint of the service", func(ctx context.Context) error {
		err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces", p.namespace, "services/service:web/proxy/ready").Do(ctx).Error()
		if apierrors.IsServiceUnavailable(err) {
			return err
		}
		return nil
	})
}

func listenOn(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	return listener
}

// send sends a request by a protocol.
func send(t *testing.T, cluster *framework.Cluster, protocol, method, path string, body io.Reader, header http.Header) *http.Response {
	t.Helper()
	config := cluster.Admin()
	config.NextProtos = []string{protocol}
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, cluster.URL+path, body)
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

func TestWhatIsProxiedStreams(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, protocol := range []string{"h2", "http/1.1"} {
			app := newApplication()
			for kind, path := range app.publish(t, cluster) {
				t.Run(kind+" by "+protocol, func(t *testing.T) {
					resp := send(t, cluster, protocol, http.MethodGet, path+"/download", nil, nil)
					defer resp.Body.Close()
					if got, want := digestOf(resp.Body), digestOf(noise("download", downloadSize)); got != want {
						t.Errorf("download: %s: got %s, want %s", resp.Status, got, want)
					}

					// Of unknown length: it is sent in chunks.
					resp = send(t, cluster, protocol, http.MethodPost, path+"/upload", io.MultiReader(noise("upload", downloadSize)), nil)
					defer resp.Body.Close()
					got, err := io.ReadAll(resp.Body)
					if want := digestOf(noise("upload", downloadSize)); err != nil || string(got) != want {
						t.Errorf("upload: %s: got %s, want %s: %v", resp.Status, got, want, err)
					}

					resp = send(t, cluster, protocol, http.MethodGet, path+"/lines", nil, nil)
					defer resp.Body.Close()
					lines := bufio.NewScanner(resp.Body)
					for _, want := range []string{"one", "two"} {
						if resp.StatusCode == http.StatusOK {
							app.lines <- want
						}
						if !lines.Scan() || lines.Text() != want {
							t.Fatalf("lines: %s: got %q (%v), want %q", resp.Status, lines.Text(), lines.Err(), want)
						}
					}
				})
			}
		}
	})
}

func TestWhatIsProxiedMayUpgrade(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for kind, path := range newApplication().publish(t, cluster) {
			for _, protocol := range []string{"websocket", "anything/1.0"} {
				t.Run(kind+" to "+protocol, func(t *testing.T) {
					resp := send(t, cluster, "http/1.1", http.MethodGet, path+"/tunnel", nil, http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}})
					defer resp.Body.Close()
					connection, ok := resp.Body.(io.ReadWriter)
					if !ok || resp.Header.Get("Upgrade") != protocol {
						t.Fatalf("got %s, %v", resp.Status, resp.Header)
					}
					assert.NoError(t, converse(connection, "client", "server", tunnelSize))
					if n, err := connection.Read(make([]byte, 1)); n > 0 || err == nil {
						t.Error("there is more when the server has ended the connection")
					}
				})
			}
		}
	})
}

// TestProxiedRequestsAreTheSame compares what a node, a pod and a service are asked by each cluster.
func TestProxiedRequestsAreTheSame(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Authorization": {""}, "X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"gopher"}, "X-Custom": {"one", "two"},
		"Accept-Encoding": {"br"}, "Cookie": {"a=b"}, "X-Remote-User": {"root"}, "Impersonate-Nothing": {"x"},
	}
	for _, upgrade := range []bool{false, true} {
		header := header.Clone()
		if upgrade {
			header.Set("Connection", "Upgrade")
			header.Set("Upgrade", "anything")
		}
		var answers [2]map[string]string
		for i, cluster := range clusters {
			answers[i] = map[string]string{}
			app := newApplication()
			for kind, path := range app.publish(t, cluster) {
				resp := send(t, cluster, "http/1.1", http.MethodGet, path+"/request?a=b%20c;d", nil, header)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				require.NoError(t, err)
				text := fmt.Sprintf("%s\n%s", resp.Status, body)
				text = strings.ReplaceAll(text, path, "PATH")
				text = strings.ReplaceAll(text, strings.TrimPrefix(cluster.URL, "https://"), "HOST")
				answers[i][kind] = text
			}
		}
		assert.Empty(t, cmp.Diff(answers[0], answers[1]), "upgrade: %t: stock -, Tripod +", upgrade)
	}
}
