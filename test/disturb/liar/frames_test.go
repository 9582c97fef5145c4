// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package liar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/hostile"
)

const (
	// enough requests get a lie on a connection that has served others.
	enough = 9
	// perRequest is how many connections to a server one request of a client may make the aggregator open. Some are for its own checks.
	perRequest = 20
	// bytesPerRequest is how much the aggregator may send to a server for a request: its body of 64 KiB, some times, and what is around it. A client that
	// loops sends more in a second.
	bytesPerRequest = 1 << 20
	// grows is how much memory the lies may take of the aggregator, which collects garbage late on a busy machine.
	grows = 256 << 20
)

// TestAggregatedServersThatSpeakNoHTTP2 has an aggregated API server for each lie in frames. Each is honest in HTTP/1.1, by which the aggregator checks it.
// Requests to it end, others are served meanwhile, and nothing is left of them when the APIService is gone.
func TestAggregatedServersThatSpeakNoHTTP2(t *testing.T) {
	address := framework.HostAddress(t)
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	config := fleet.Admin()
	config.Timeout = 2 * time.Minute // it only ends a test that would never end
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	goroutines, memory := measure(t)

	servers := make([]*hostile.Server, len(hostile.Frames))
	groupOf := func(i int) string { return fmt.Sprintf("lies%d.example.com", i) }
	for i, lie := range hostile.Frames {
		servers[i] = hostile.StartOn(t, address, lie)
		register(t, namespace, groupOf(i), servers[i].URL())
	}
	var wanting errgroup.Group
	var over atomic.Bool
	wanting.Go(func() error { return wantConfigMaps(client, &over) })
	var lies sync.WaitGroup
	for i, lie := range hostile.Frames {
		lies.Go(func() {
			requests := askLiar(t, client, groupOf(i), servers[i])
			unregister(t, groupOf(i))
			assert.LessOrEqual(t, servers[i].Connections(), int64(requests*perRequest), "%s: connections for %d requests", lie.Name, requests)
			assert.LessOrEqual(t, servers[i].Received(), int64(requests*bytesPerRequest), "%s: bytes for %d requests", lie.Name, requests)
			servers[i].Close()
		})
	}
	lies.Wait()
	over.Store(true)
	assert.NoError(t, wanting.Wait())
	awaitRest(t, goroutines, memory)
}

// wantConfigMaps asks for what has nothing to do with lies, until over.
func wantConfigMaps(client *http.Client, over *atomic.Bool) error {
	for !over.Load() {
		for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis"} {
			resp, err := client.Get(fleet.URL + path)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s %w", path, resp.Status, err)
			}
		}
	}
	return nil
}

// askLiar sends requests to an aggregated API server until one got its lie, which all end, and returns how many. It reads what comes first of
// an answer, and goes.
func askLiar(t *testing.T, client *http.Client, group string, server *hostile.Server) (requests int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for requests < enough || server.Connections() == 0 && ctx.Err() == nil {
		for _, request := range []struct{ method, path, body string }{
			{http.MethodPost, "/apis/" + group + "/v1/lies", `{"kind": "Lie", "data": "` + strings.Repeat("a", 64<<10) + `"}`},
			{http.MethodGet, "/apis/" + group + "/v1/lies?watch=true&timeoutSeconds=1", ""},
			{http.MethodDelete, "/apis/" + group + "/v1/lies", ""},
		} {
			ask(ctx, client, request.method, request.path, request.body)
			requests++
		}
	}
	service, err := aggregator.NewForConfigOrDie(fleet.Admin()).ApiregistrationV1().APIServices().Get(t.Context(), "v1."+group, metav1.GetOptions{})
	if assert.NoError(t, err) {
		assert.NotZero(t, server.Connections(), "%s was not asked in HTTP/2: %v", group, service.Status.Conditions)
	}
	return requests
}

// ask sends a request, whatever comes of it.
func ask(ctx context.Context, client *http.Client, method, path, body string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, fleet.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err) // of a path that a test has made
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := client.Do(req); err == nil {
		_, _ = resp.Body.Read(make([]byte, 1<<10)) // there may be none
		_ = resp.Body.Close()                      // nothing is lost
	}
}

// register makes a server the API server of a group.
func register(t *testing.T, namespace, group, url string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(fleet.Admin())
	services := aggregator.NewForConfigOrDie(fleet.Admin()).ApiregistrationV1().APIServices()
	name := strings.ReplaceAll(group, ".", "-")
	host, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	require.NoError(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	_, err = client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(number)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = services.Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: name, Port: ptr.To(int32(443))},
			Group:   group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 15, InsecureSkipTLSVerify: true,
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func unregister(t *testing.T, group string) {
	t.Helper()
	services := aggregator.NewForConfigOrDie(fleet.Admin()).ApiregistrationV1().APIServices()
	assert.NoError(t, services.Delete(t.Context(), "v1."+group, metav1.DeleteOptions{}))
}

// TestABackendThatSpeaksNoHTTP2 has a false replica of extensions that is honest in HTTP/1.1 and in its feed.
func TestABackendThatSpeaksNoHTTP2(t *testing.T) {
	config := fleet.Admin()
	config.Timeout = 2 * time.Minute // it only ends a test that would never end
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	goroutines, memory := measure(t)
	for _, framed := range hostile.Frames {
		t.Run(framed.Name, func(t *testing.T) {
			l := &lie{frames: framed.Frames}
			l.serve(t)
			framework.Eventually(t, "the false replica gets requests", func(ctx context.Context) error {
				for i := range requests {
					path := fmt.Sprintf("/apis/evil%d.example.com/v1/things", i)
					ask(ctx, client, http.MethodPost, path, `{"data": "`+strings.Repeat("a", 64<<10)+`"}`)
					ask(ctx, client, http.MethodGet, path+"?watch=true&timeoutSeconds=1", "")
				}
				if l.asked.Load() == 0 {
					return errors.New("it got none")
				}
				return nil
			})
			assert.LessOrEqual(t, l.asked.Load(), int64(2*requests*perRequest), "connections for %d requests", 2*requests)
		})
	}
	awaitRest(t, goroutines, memory)
}

// measure returns how many goroutines the aggregator has, and the most memory that it has taken.
func measure(t *testing.T) (goroutines float64, memory uint64) {
	t.Helper()
	goroutines, err := fleet.Metric(t.Context(), "aggregator-0", "go_goroutines")
	require.NoError(t, err)
	memory, err = fleet.Replica("aggregator-0").Process().PeakMemory()
	require.NoError(t, err)
	return goroutines, memory
}

// awaitRest returns when nothing is left of what the aggregator did.
func awaitRest(t *testing.T, goroutines float64, memory uint64) {
	t.Helper()
	framework.Eventually(t, "nothing is left of the lies", func(context.Context) error {
		now, peak := measure(t)
		if peak > memory+grows {
			t.Errorf("the aggregator has taken %d MiB, and %d before", peak>>20, memory>>20)
			return nil
		}
		if now > goroutines*5/4 {
			return fmt.Errorf("there are %v goroutines, and were %v", now, goroutines)
		}
		return nil
	})
}
