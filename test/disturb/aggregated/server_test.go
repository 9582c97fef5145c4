// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/local/certs"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	group      = "wardle.example.com"
	apiService = "v1alpha1." + group
	// serverUser is who the API server is.
	serverUser = "sample-apiserver"
)

// server is an API server with a Service and two endpoints, which share an etcd.
type server struct {
	namespace string
	endpoints [2]*endpoint
	client    kubernetes.Interface
	services  aggregator.Interface
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
	s := &server{namespace: framework.CreateNamespace(t, fleet.Cluster)}
	client, err := kubernetes.NewForConfig(fleet.Admin())
	s.client = must(t, client, err)
	services, err := aggregator.NewForConfig(fleet.Admin())
	s.services = must(t, services, err)
	dir := filepath.Join(environment.Dir, s.namespace)
	store, err := certs.Open(filepath.Join(dir, "pki"))
	ca, err := must(t, store, err).Authority("ca", "sample-ca")
	leaf := certs.Leaf{CommonName: "sample", DNSNames: []string{"sample." + s.namespace + ".svc"}, Server: true}
	issued, err := must(t, ca, err).Ensure("server", leaf)
	must(t, issued, err)
	etcd, err := environment.StartEtcd(t.Context(), dir)
	must(t, etcd, err)
	kubeconfig := s.delegate(t, dir)
	service, err := s.client.CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "sample"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	must(t, service, err)
	for i := range s.endpoints {
		port, err := framework.FreePort()
		s.endpoints[i] = &endpoint{
			address: s.addEndpoint(t, i, must(t, port, err)),
			command: framework.Command{
				Path: environment.Binary("test-assets/sample-apiserver"), Dir: dir,
				Args: []string{
					"--etcd-servers=" + etcd, "--secure-port=" + strconv.Itoa(port),
					"--tls-cert-file=" + store.CertFile("server"), "--tls-private-key-file=" + store.KeyFile("server"),
					"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
				},
			},
		}
	}
	bundle, err := os.ReadFile(ca.File())
	s.register(t, must(t, bundle, err))
	return s
}

// delegate lets the user of the server ask what API servers ask, and returns the path of its kubeconfig.
func (s *server) delegate(t testing.TB, dir string) string {
	t.Helper()
	config, err := fleet.UserConfig(serverUser)
	must(t, config, err)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificate: config.CertFile, ClientKey: config.KeyFile}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "c"
	path := filepath.Join(dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*kubeconfig, path))
	binding, err := s.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: serverUser, APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{})
	must(t, binding, err)
	return path
}

// addEndpoint makes an EndpointSlice for a port of this machine, and returns the address.
func (s *server) addEndpoint(t testing.TB, number, port int) string {
	t.Helper()
	host := hostAddress(t)
	slice, err := s.client.DiscoveryV1().EndpointSlices(s.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("sample-%d", number), Labels: map[string]string{discoveryv1.LabelServiceName: "sample"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(port)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{})
	must(t, slice, err)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// hostAddress returns an address of this machine that is not loopback: EndpointSlices take no other.
func hostAddress(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	for _, address := range must(t, addresses, err) {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	t.Skip("this machine has only loopback addresses: ", addresses)
	return ""
}

func (s *server) register(t testing.TB, bundle []byte) {
	t.Helper()
	registered, err := s.services.ApiregistrationV1().APIServices().Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiService},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: s.namespace, Name: "sample", Port: ptr.To[int32](443)},
			Group:   group, Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: bundle,
		},
	}, metav1.CreateOptions{})
	must(t, registered, err)
	t.Cleanup(func() {
		assert.NoError(t, s.services.ApiregistrationV1().APIServices().Delete(context.Background(), apiService, metav1.DeleteOptions{}))
	})
}

// start starts an endpoint.
func (e *endpoint) start(t testing.TB) {
	t.Helper()
	e.starts++
	e.command.Name = fmt.Sprintf("sample-%s.%d", e.address[strings.LastIndex(e.address, ":")+1:], e.starts)
	process, err := environment.Start(e.command)
	e.process = must(t, process, err)
}

// kill ends an endpoint as kill -9 does.
func (e *endpoint) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, e.process.Signal(syscall.SIGKILL))
	<-e.process.Done()
}

// awaitCondition waits until the Available condition says what is wanted, and names what it should and nothing else.
func (s *server) awaitCondition(t testing.TB, status apiregistrationv1.ConditionStatus, reason string, failing ...*endpoint) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("Available is %s because %s", status, reason), func(ctx context.Context) error {
		service, err := s.services.ApiregistrationV1().APIServices().Get(ctx, apiService, metav1.GetOptions{})
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
