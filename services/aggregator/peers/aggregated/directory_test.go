// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

const name = "v1.third.example.com"

// fixture is a directory, and an API server whose endpoints a test starts and stops.
type fixture struct {
	*Directory
	pki     *connectionstest.PKI
	client  *fake.Clientset
	changes chan string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{pki: connectionstest.NewPKI(t), client: fake.NewClientset(service(nil)), changes: make(chan string, 1000)}
	cert, key := read(t, f.pki.CertFile), read(t, f.pki.KeyFile)
	factory := informers.NewSharedInformerFactory(f.client, 0)
	var err error
	f.Directory, err = New(Config{
		Services:       factory.Core().V1().Services(),
		EndpointSlices: factory.Discovery().V1().EndpointSlices(),
		ByEndpoint:     true,
		ClientCert:     func() ([]byte, []byte) { return cert, key },
	})
	require.NoError(t, err)
	f.Subscribe(func(changed string) {
		select {
		case f.changes <- changed:
		default:
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	if !cache.WaitForCacheSync(ctx.Done(), f.HasSynced) {
		t.Fatal("Services and EndpointSlices are not seen")
	}
	return f
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return content
}

// apiService returns the APIService of the server, with this CA.
func (f *fixture) apiService(ca []byte) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "third.example.com", Version: "v1", CABundle: ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "third", Port: ptr.To[int32](443)},
		},
	}
}

// setEndpoints gives the Service these endpoints (host:port).
func (f *fixture) setEndpoints(t *testing.T, addresses ...string) {
	t.Helper()
	client := f.client.DiscoveryV1().EndpointSlices("ns")
	before, err := client.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, s := range before.Items {
		require.NoError(t, client.Delete(t.Context(), s.Name, metav1.DeleteOptions{}))
	}
	for _, address := range addresses {
		host, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		port, err := strconv.ParseInt(text, 10, 32)
		require.NoError(t, err)
		s := slice(ipv4, ptr.To("https"), int32(port), at(host, nil))
		s.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "third-" + text, Labels: map[string]string{discoveryv1.LabelServiceName: "third"}}
		if _, err := client.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// giveUp ends a wait that would otherwise never end.
const giveUp = 20 * time.Second

// await waits until wanted returns nil for the state.
func (f *fixture) await(t *testing.T, wanted func(State) error) {
	t.Helper()
	for {
		state, known := f.State(name)
		err := errors.New("nothing is known")
		if known {
			err = wanted(state)
		}
		if err == nil {
			return
		}
		select {
		case <-f.changes:
		case <-time.After(giveUp):
			t.Fatal(err)
		}
	}
}

// endpointsAre expects exactly these endpoints to be ready.
func endpointsAre(ready []string, others ...string) func(State) error {
	return func(s State) error {
		var is, isNot []string
		for _, r := range s.Replicas {
			switch {
			case r.Ready:
				is = append(is, r.Address)
			case r.Probed:
				isNot = append(isNot, r.Address)
			}
		}
		slices.Sort(ready)
		slices.Sort(others)
		if !slices.Equal(is, ready) || !slices.Equal(isNot, others) {
			return fmt.Errorf("endpoints are %+v, problem %+v", s.Replicas, s.Problem)
		}
		return nil
	}
}

func hasProblem(reason string) func(State) error {
	return func(s State) error {
		if s.Problem == nil || s.Problem.Reason != reason {
			return fmt.Errorf("problem is %+v, want %s", s.Problem, reason)
		}
		return nil
	}
}

// api is an endpoint that counts requests.
type api struct {
	*httptest.Server
	address  string
	requests atomic.Int64
}

func (f *fixture) serve(t *testing.T) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/apis/third.example.com/v1" {
			if got := req.Header.Get("X-Remote-User") + " " + req.Header.Get("X-Remote-Group"); got != "system:kube-aggregator system:masters" {
				t.Errorf("a check comes from %q", got)
			}
		} else {
			a.requests.Add(1)
		}
		if len(req.TLS.PeerCertificates) == 0 {
			t.Error("no client certificate is shown")
		}
		body, _ := io.ReadAll(req.Body)
		_, _ = io.WriteString(w, req.Method+" "+string(body)) // the client checks the answer
	}))
	a.TLS = f.pki.ServerConfig(t, "third.ns.svc")
	a.EnableHTTP2 = true
	a.StartTLS()
	a.address = a.Listener.Addr().String()
	t.Cleanup(a.Close)
	return a
}

// send sends a request and returns the answer.
func send(t *testing.T, s *Server, method, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "/apis/third.example.com/v1/things", io.MultiReader(strings.NewReader(body)))
	require.NoError(t, err)
	resp, err := s.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

func TestEveryRequestIsServedWhileOneEndpointIs(t *testing.T) {
	f := newFixture(t)
	dead, alive := connectionstest.ClosedAddress(t), f.serve(t)
	f.setEndpoints(t, dead, alive.address)
	server := f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, func(s State) error {
		if len(s.Replicas) != 2 {
			return fmt.Errorf("endpoints are %+v, problem %+v", s.Replicas, s.Problem)
		}
		return nil
	})
	const rounds = 20
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}
	for range rounds {
		for _, method := range methods {
			if got, err := send(t, server, method, "content"); err != nil || got != method+" content" {
				t.Fatalf("%s: got %q, %v", method, got, err)
			}
		}
	}
	if n := alive.requests.Load(); n != int64(rounds*len(methods)) {
		t.Errorf("%d requests were served, not %d", n, rounds*len(methods))
	}
	f.await(t, endpointsAre([]string{alive.address}, dead))
}

func TestEndpointsComeAndGoWithTheService(t *testing.T) {
	f := newFixture(t)
	first, second := f.serve(t), f.serve(t)
	server := f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, hasProblem("EndpointsNotFound"))
	var unreachable *upstream.UnreachableError
	if _, err := send(t, server, http.MethodPost, "content"); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "cannot find endpointslices") {
		t.Errorf("error is %v", err)
	}
	f.setEndpoints(t, first.address)
	f.await(t, endpointsAre([]string{first.address}))
	f.setEndpoints(t, second.address)
	f.await(t, endpointsAre([]string{second.address}))
	require.NoError(t, f.client.CoreV1().Services("ns").Delete(t.Context(), "third", metav1.DeleteOptions{}))
	f.await(t, hasProblem("ServiceNotFound"))
	back := service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })
	if _, err := f.client.CoreV1().Services("ns").Create(t.Context(), back, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t, endpointsAre([]string{second.address}))
	f.Remove(name)
	if _, known := f.State(name); known {
		t.Error("it is known after its removal")
	}
	f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{second.address}))
}

func TestServersAreForgottenWhenTheyHaveFinished(t *testing.T) {
	f := newFixture(t)
	only := f.serve(t)
	f.setEndpoints(t, only.address)
	server := f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{only.address}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/apis/third.example.com/v1/things", nil)
	require.NoError(t, err)
	resp, err := server.RoundTrip(req)
	require.NoError(t, err)
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.servers)
	}
	f.Remove(name)
	f.forget()
	assert.Equal(t, 1, count(), "it is forgotten before its last request has ended")
	f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{only.address}))
	f.forget()
	assert.Equal(t, 1, count(), "it is forgotten although its APIService is back")
	f.Remove(name)
	require.NoError(t, resp.Body.Close())
	for deadline := time.After(giveUp); count() != 0; f.forget() {
		select {
		case <-deadline:
			t.Fatal("it is not forgotten")
		case <-time.After(time.Millisecond):
		}
	}
	f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{only.address}))
}

func TestConnectionsAreMadeOfWhatTheAPIServiceSaysNow(t *testing.T) {
	f := newFixture(t)
	only := f.serve(t)
	f.setEndpoints(t, only.address)
	f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{only.address}))

	other := f.Set(f.apiService(read(t, connectionstest.NewPKI(t).CAFile)))
	f.await(t, endpointsAre(nil, only.address))
	before := only.requests.Load()
	if _, err := send(t, other, http.MethodGet, ""); err == nil || only.requests.Load() != before {
		t.Errorf("a server whose certificate is signed by somebody else is used: %v", err)
	}

	skipped := f.apiService(nil)
	skipped.Spec.InsecureSkipTLSVerify = true
	f.Set(skipped)
	f.await(t, endpointsAre([]string{only.address}))

	contradictory := f.apiService(read(t, f.pki.CAFile))
	contradictory.Spec.InsecureSkipTLSVerify = true
	f.Set(contradictory)
	f.await(t, hasProblem("FailedDiscoveryCheck"))

	f.Set(f.apiService(read(t, f.pki.CAFile)))
	f.await(t, endpointsAre([]string{only.address}))
}
