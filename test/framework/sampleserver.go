// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/certs"
)

// SampleServer is k8s.io/sample-apiserver as an aggregated API server of a cluster. Its processes share an etcd. No process runs until a test starts
// one.
type SampleServer struct {
	Cluster *Cluster
	// Namespace is the namespace of the Services that lead to the server. The certificate of the server is valid for each Service there.
	Namespace string
	// CA has issued that certificate.
	CA []byte
	// EtcdURL is the URL of its etcd.
	EtcdURL string

	environment *Environment
	store       *certs.Store
	command     Command
}

// delegation lets the server ask the cluster who its users are and what they may do, and read what its admission needs. NAME is the namespace.
const delegation = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [admissionregistration.k8s.io, flowcontrol.apiserver.k8s.io], resources: ["*"], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: sample-apiserver}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: sample-apiserver}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: NAME, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: sample-apiserver}]
`

// NewSampleServer is PrepareSampleServer for a test.
func (e *Environment) NewSampleServer(t testing.TB, cluster *Cluster) *SampleServer {
	t.Helper()
	s, err := e.PrepareSampleServer(t.Context(), cluster)
	require.NoError(t, err)
	return s
}

// PrepareSampleServer prepares a server: its etcd, its certificate and its rights.
func (e *Environment) PrepareSampleServer(ctx context.Context, cluster *Cluster) (*SampleServer, error) {
	s := &SampleServer{environment: e, Cluster: cluster}
	var err error
	if s.Namespace, err = newNamespace(ctx, cluster); err != nil {
		return nil, err
	}
	dir := filepath.Join(e.Dir, s.Namespace)
	store, err := certs.Open(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	ca, err := store.Authority("ca", "sample-ca")
	if err != nil {
		return nil, err
	}
	if _, err = ca.Ensure("server", certs.Leaf{CommonName: "sample", DNSNames: []string{"*." + s.Namespace + ".svc"}, Server: true}); err != nil {
		return nil, err
	}
	s.store = store
	if s.CA, err = os.ReadFile(ca.File()); err != nil {
		return nil, err
	}
	if s.EtcdURL, err = e.StartEtcd(ctx, dir); err != nil {
		return nil, err
	}
	kubeconfig, err := cluster.UserKubeconfig(dir, "sample-apiserver")
	if err != nil {
		return nil, err
	}
	s.command = Command{Path: e.Binary("test-assets/sample-apiserver"), Dir: dir, Args: []string{
		"--etcd-servers=" + s.EtcdURL, "--tls-cert-file=" + store.CertFile("server"), "--tls-private-key-file=" + store.KeyFile("server"),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}}
	return s, cluster.Create(ctx, strings.ReplaceAll(delegation, "NAME", s.Namespace))
}

// Run has other processes take the place of k8s.io/sample-apiserver: those of a program that has its flags, in bin/.
func (s *SampleServer) Run(program string) { s.command.Path = s.environment.Binary(program) }

// Certificate returns the files of the certificate and of its key.
func (s *SampleServer) Certificate() (certFile, keyFile string) {
	return s.store.CertFile("server"), s.store.KeyFile("server")
}

// Command returns the command of a process that serves at a port.
func (s *SampleServer) Command(name string, port int) Command {
	command := s.command
	command.Name, command.Args = name, append([]string{"--secure-port=" + strconv.Itoa(port)}, command.Args...)
	return command
}

// APIService returns the registration of the server, by a Service in its namespace.
func (s *SampleServer) APIService(service string, port int) *apiregistrationv1.APIService {
	servicePort := int32(port)
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: s.Namespace, Name: service, Port: &servicePort},
			Group:   "wardle.example.com", Version: "v1alpha1", GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: s.CA,
		},
	}
}

// HostAddress is FindHostAddress for a test. Without such an address, the test is skipped.
func HostAddress(t testing.TB) string {
	t.Helper()
	address, err := FindHostAddress()
	if err != nil {
		t.Skip(err)
	}
	return address
}

// FindHostAddress returns an IPv4 address of this machine that is not loopback. Endpoints and pods can have no loopback address.
func FindHostAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String(), nil
		}
	}
	return "", fmt.Errorf("this machine has only loopback addresses: %v", addresses)
}
