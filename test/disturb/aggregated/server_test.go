// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	group      = "wardle.example.com"
	apiService = "v1alpha1." + group
)

// server is an API server with a Service and two endpoints.
type server struct {
	*framework.SampleServer
	endpoints [2]*endpoint
	client    kubernetes.Interface
	services  apiregistrationclient.APIServiceInterface
}

// endpoint is a process of the server. It has an EndpointSlice whether it runs or not.
type endpoint struct {
	// address is host:port.
	address string
	command framework.Command
	process *framework.Process
	starts  int
}

// newServer registers a server none of whose endpoints runs.
func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{SampleServer: environment.NewSampleServer(t, fleet.Cluster)}
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	s.client = client
	services, err := aggregator.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	s.services = services.ApiregistrationV1().APIServices()
	_, err = s.client.CoreV1().Services(s.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "sample"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range s.endpoints {
		port, err := framework.FreePort()
		require.NoError(t, err)
		s.endpoints[i] = &endpoint{address: s.addEndpoint(t, i, port), command: s.Command(fmt.Sprintf("sample-%d", port), port)}
	}
	_, err = s.services.Create(t.Context(), s.APIService("sample", 443), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.services.Delete(context.Background(), apiService, metav1.DeleteOptions{})) })
	return s
}

// addEndpoint makes an EndpointSlice for a port of this machine, and returns the address.
func (s *server) addEndpoint(t testing.TB, number, port int) string {
	t.Helper()
	host := framework.HostAddress(t)
	_, err := s.client.DiscoveryV1().EndpointSlices(s.Namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("sample-%d", number), Labels: map[string]string{discoveryv1.LabelServiceName: "sample"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(port)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// start starts an endpoint.
func (e *endpoint) start(t testing.TB) {
	t.Helper()
	e.starts++
	command := e.command
	command.Name += fmt.Sprintf(".%d", e.starts)
	process, err := environment.Start(command)
	require.NoError(t, err)
	e.process = process
}

// kill ends an endpoint as kill -9 does.
func (e *endpoint) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, e.process.Signal(syscall.SIGKILL))
	<-e.process.Done()
}

// awaitCondition waits until the Available condition has the expected status, and names the expected endpoints and nothing else.
func (s *server) awaitCondition(t testing.TB, status apiregistrationv1.ConditionStatus, reason string, failing ...*endpoint) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("Available is %s because %s", status, reason), func(ctx context.Context) error {
		service, err := s.services.Get(ctx, apiService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
		if got == nil || got.Status != status || got.Reason != reason {
			return fmt.Errorf("the condition is %v", got)
		}
		for _, e := range s.endpoints {
			if named := strings.Contains(got.Message, e.address); named != slices.Contains(failing, e) {
				return fmt.Errorf("the message names %s: %v: %s", e.address, named, got.Message)
			}
		}
		return nil
	})
}
