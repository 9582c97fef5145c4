// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/local/certs"
	"github.com/tripod-k8s/tripod/test/framework"
)

// flunders are what the sample API server serves.
var flunders = resource{schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}, "Flunder"}

const flunderService = "v1alpha1.wardle.example.com"

// flunder returns an object without data.
func flunder(name string) *unstructured.Unstructured {
	object := flunders.object(name, "")
	delete(object.Object, "data")
	return object
}

// sampleServer is a running k8s.io/sample-apiserver, which asks a cluster who its users are and what they may do.
type sampleServer struct {
	*framework.Process
	cluster *framework.Cluster
	// namespace is that of the Services by which the server is reached.
	namespace string
	port      int
	// ca signs the certificate of the server, which is good for any Service in the namespace.
	ca []byte
}

func startSampleServer(t testing.TB, env *framework.Environment, c *framework.Cluster) *sampleServer {
	t.Helper()
	s := &sampleServer{cluster: c, namespace: framework.CreateNamespace(t, c)}
	dir := filepath.Join(env.Dir, s.namespace)
	store, err := certs.Open(filepath.Join(dir, "pki"))
	ca, err := must(t, store, err).Authority("ca", "sample-ca")
	issued, err := must(t, ca, err).Ensure("server", certs.Leaf{CommonName: "sample", DNSNames: []string{"*." + s.namespace + ".svc"}, Server: true})
	must(t, issued, err)
	bundle, err := os.ReadFile(ca.File())
	s.ca = must(t, bundle, err)
	etcd, err := env.StartEtcd(t.Context(), dir)
	must(t, etcd, err)
	port, err := framework.FreePort()
	s.port = must(t, port, err)

	kubeconfig := s.delegate(t, dir)
	process, err := env.Start(framework.Command{
		Name: "sample-apiserver", Path: env.Binary("test-assets/sample-apiserver"),
		Args: []string{
			"--etcd-servers=" + etcd, "--secure-port=" + strconv.Itoa(s.port),
			"--tls-cert-file=" + store.CertFile("server"), "--tls-private-key-file=" + store.KeyFile("server"),
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		},
	})
	s.Process = must(t, process, err)
	return s
}

// delegate lets the user of the server ask what API servers ask, and returns the path of its kubeconfig.
func (s *sampleServer) delegate(t testing.TB, dir string) string {
	t.Helper()
	config, err := s.cluster.UserConfig("sample-apiserver")
	must(t, config, err)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificate: config.CertFile, ClientKey: config.KeyFile}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "c"
	path := filepath.Join(dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*kubeconfig, path))

	client := kubeClient(t, s.cluster.Admin()).RbacV1()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "sample-apiserver", APIGroup: rbacv1.GroupName}}
	reading := []string{"get", "list", "watch"}
	role, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Rules: []rbacv1.PolicyRule{
			{Verbs: reading, APIGroups: []string{""}, Resources: []string{"namespaces"}},
			{Verbs: reading, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}},
			{Verbs: reading, APIGroups: []string{"flowcontrol.apiserver.k8s.io"}, Resources: []string{"*"}},
		},
	}, metav1.CreateOptions{})
	must(t, role, err)
	for _, name := range []string{s.namespace, "system:auth-delegator"} {
		binding, err := client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: s.namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects,
		}, metav1.CreateOptions{})
		must(t, binding, err)
	}
	binding, err := client.RoleBindings(metav1.NamespaceSystem).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"}, Subjects: subjects,
	}, metav1.CreateOptions{})
	must(t, binding, err)
	return path
}

// externalName makes a Service that stands for localhost.
func (s *sampleServer) externalName(t testing.TB) string {
	t.Helper()
	service, err := kubeClient(t, s.cluster.Admin()).CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "by-name-"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	return must(t, service, err).Name
}

// apiService returns the registration of the server.
func (s *sampleServer) apiService(service string, port int) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: flunderService},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: s.namespace, Name: service, Port: ptr.To(int32(port))},
			Group:   flunders.Group, Version: flunders.Version, GroupPriorityMinimum: 1000, VersionPriority: 15,
			CABundle: s.ca,
		},
	}
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
	t.Skip("this machine has only loopback addresses: ", fmt.Sprint(addresses))
	return ""
}
