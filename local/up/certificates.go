// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"net"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Names of certificates and keys in the pki directory, as kubeadm has them.
const (
	clusterCA        = "ca"
	frontProxyCA     = "front-proxy-ca"
	frontProxyClient = "front-proxy-client"
	etcdCA           = "etcd-ca"
	etcdServer       = "etcd-server"
	// etcdClient is of the user root of etcd, for snapshots. Each service has a certificate of its own, etcd-SERVICE.
	etcdClient      = "apiserver-etcd-client"
	apiserver       = "apiserver"
	admin           = "admin"
	kubeletClient   = "kubelet-client"
	serviceAccounts = "sa"
)

// etcdClientOf returns the name of the certificate of a service for etcd.
func etcdClientOf(service string) string { return "etcd-" + replicas.CertificateOf(service) }

// ensureCertificates makes and renews what the instance needs besides the certificates by which its services trust each other.
func ensureCertificates(store *certs.Store, names []string, addresses []net.IP, additional []string) error {
	clients := map[string]certs.Leaf{
		etcdServer: {
			CommonName: "etcd", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true,
		},
		etcdClient:                        {CommonName: access.Root, Client: true},
		etcdClientOf(replicas.Core):       {CommonName: access.Core, Client: true},
		etcdClientOf(replicas.Extensions): {CommonName: access.Extensions, Client: true},
		etcdClientOf(replicas.Aggregator): {CommonName: access.Aggregator, Client: true},
	}
	for _, service := range additional {
		clients[etcdClientOf(service)] = certs.Leaf{CommonName: access.UserOf(service), Client: true}
	}
	authorities := []struct {
		name, commonName string
		leaves           map[string]certs.Leaf
	}{
		{clusterCA, "kubernetes", map[string]certs.Leaf{
			apiserver:     {CommonName: "kube-apiserver", DNSNames: names, IPs: addresses, Server: true},
			admin:         {CommonName: "kubernetes-admin", Organizations: []string{user.SystemPrivilegedGroup}, Client: true},
			kubeletClient: {CommonName: "kube-apiserver-kubelet-client", Client: true},
		}},
		{frontProxyCA, "front-proxy-ca", map[string]certs.Leaf{
			frontProxyClient: {CommonName: frontProxyClient, Client: true},
		}},
		{etcdCA, "etcd-ca", clients},
	}
	for _, authority := range authorities {
		ca, err := store.Authority(authority.name, authority.commonName)
		if err != nil {
			return err
		}
		for name, leaf := range authority.leaves {
			if _, err := ca.Ensure(name, leaf); err != nil {
				return err
			}
		}
	}
	return store.EnsureSigningKey(serviceAccounts)
}

// Certificates describes the certificates of the instance in dir.
func Certificates(dir DataDir) ([]certs.Info, error) { return certs.List(dir.pki()) }
