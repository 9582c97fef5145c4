// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"net"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

const (
	serviceClusterIPRange = "10.0.0.0/24"
	serviceAccountIssuer  = "https://kubernetes.default.svc.cluster.local"
)

// kubernetesServiceIP is the address of the kubernetes Service: the first of serviceClusterIPRange.
var kubernetesServiceIP = net.IPv4(10, 0, 0, 1)

// arguments builds the flags of the services of an instance.
type arguments struct {
	options *Options
	store   *certs.Store
	// port is where clients reach the instance.
	port      int
	advertise net.IP
	// etcd is the embedded etcd, if there is one.
	etcd *replicas.Port
}

func (a *arguments) core(replica string) []string {
	args := append(a.shared(replicas.Core, replica), a.requestHeader()...)
	args = append(args,
		"--client-ca-file="+a.store.CertFile(clusterCA),
		"--service-cluster-ip-range="+serviceClusterIPRange,
		"--enable-bootstrap-token-auth=true",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-account-issuer="+serviceAccountIssuer,
		"--service-account-key-file="+a.store.PublicKeyFile(serviceAccounts),
		"--service-account-signing-key-file="+a.store.KeyFile(serviceAccounts),
		"--kubelet-client-certificate="+a.store.CertFile(kubeletClient),
		"--kubelet-client-key="+a.store.KeyFile(kubeletClient),
		"--bind-kubelet-client=true",
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
	)
	if a.advertise == nil {
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return append(args, forReplica(replica, a.options.CoreArgs)...)
}

func (a *arguments) extensions(replica string) []string {
	return append(a.shared(replicas.Extensions, replica), forReplica(replica, a.options.ExtensionsArgs)...)
}

// aggregator returns the flags of an aggregator that serves at address and port.
func (a *arguments) aggregator(replica string, address net.IP, port string) []string {
	args := append(a.shared(replicas.Aggregator, replica), a.requestHeader()...)
	args = append(args,
		"--bind-address="+address.String(),
		"--secure-port="+port,
		"--tls-cert-file="+a.store.CertFile(apiserver),
		"--tls-private-key-file="+a.store.KeyFile(apiserver),
		"--client-ca-file="+a.store.CertFile(clusterCA),
		"--proxy-client-cert-file="+a.store.CertFile(frontProxyClient),
		"--proxy-client-key-file="+a.store.KeyFile(frontProxyClient),
		"--apiservice-form="+a.options.APIServiceForm,
	)
	return append(args, forReplica(replica, a.options.AggregatorArgs)...)
}

// requestHeader returns the flags by which services trust an authenticating proxy, and aggregated API servers the aggregator.
func (a *arguments) requestHeader() []string {
	return []string{
		"--requestheader-client-ca-file=" + a.store.CertFile(frontProxyCA),
		"--requestheader-allowed-names=" + frontProxyClient,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

// shared returns the flags of core, extensions and the aggregator.
func (a *arguments) shared(service, replica string) []string {
	return slices.Concat([]string{"--authorization-mode=Node,RBAC"}, a.options.sharedArguments(), a.every(service, replica))
}

// every returns the flags that every service has: its name, address and etcd.
func (a *arguments) every(service, replica string) []string {
	advertise := a.advertise
	if advertise == nil {
		advertise = replicas.ClientAddress(a.options.BindAddress)
	}
	args := []string{
		"--replica=" + replica,
		"--advertise-address=" + advertise.String(),
	}
	servers := a.options.etcdServers(service)
	if len(servers) == 0 {
		return append(args,
			"--etcd-servers="+a.etcd.URL(),
			"--etcd-cafile="+a.store.CertFile(etcdCA),
			"--etcd-certfile="+a.store.CertFile(etcdClientOf(service)),
			"--etcd-keyfile="+a.store.KeyFile(etcdClientOf(service)),
			"--etcd-db-metric-poll-interval=0", // only root may know
			"--etcd-compaction-interval=0",     // only root may do it, so etcd does it itself
		)
	}
	args = append(args, "--etcd-servers="+strings.Join(servers, ","))
	if a.options.EtcdCAFile != "" {
		args = append(args, "--etcd-cafile="+a.options.EtcdCAFile)
	}
	if a.options.EtcdCertFile != "" {
		args = append(args, "--etcd-certfile="+a.options.EtcdCertFile, "--etcd-keyfile="+a.options.EtcdKeyFile)
	}
	return args
}

// embeddedEtcd returns the arguments of `tripod etcd run`.
func (a *arguments) embeddedEtcd(dataDir DataDir) []string {
	return []string{
		"etcd", "run",
		"--data-dir=" + dataDir.etcd(),
		"--client-url=" + a.etcd.URL(),
		"--cert-file=" + a.store.CertFile(etcdServer),
		"--key-file=" + a.store.KeyFile(etcdServer),
		"--trusted-ca-file=" + a.store.CertFile(etcdCA),
	}
}

// replicaPlaceholder stands for the name of a replica in flags of the user.
const replicaPlaceholder = "{replica}"

// forReplica returns the user's flags with the name of the replica filled in.
func forReplica(replica string, flags []string) []string {
	own := make([]string, 0, len(flags))
	for _, flag := range flags {
		own = append(own, strings.ReplaceAll(flag, replicaPlaceholder, replica))
	}
	return own
}
