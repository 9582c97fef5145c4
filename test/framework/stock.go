// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/certs"
)

// StockOptions are the options of StartStock.
type StockOptions struct {
	// Args are additional flags of kube-apiserver.
	Args []string
	// Env is added to the environment.
	Env []string
	// DropIn starts `tripod kube-apiserver` instead of kube-apiserver.
	DropIn bool
	// Binary is another kube-apiserver, such as one of an older version. Empty is that of the test assets.
	Binary string
}

// Stock is a running stock kube-apiserver with an etcd of its own.
type Stock struct {
	*Cluster
	Process *Process
	// EtcdURL is the URL of the etcd, and Etcd its process.
	EtcdURL string
	Etcd    *Process

	environment *Environment
	command     Command
	etcdCommand Command
}

// StartStock starts an etcd and a stock kube-apiserver, with the configuration that `tripod up` gives its services. It returns when kube-apiserver
// is ready.
func (e *Environment) StartStock(ctx context.Context, options StockOptions) (*Stock, error) {
	name := "stock"
	if options.DropIn {
		name = "dropin"
	}
	dir, err := e.newDir(name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Stock{environment: e, Cluster: &Cluster{
		Name:       name,
		URL:        fmt.Sprintf("https://127.0.0.1:%d", port),
		DataDir:    dir,
		PKI:        filepath.Join(dir, "pki"),
		Kubeconfig: filepath.Join(dir, "kubeconfig"),
	}}
	if err := MakeStockPKI(s.PKI); err != nil {
		return nil, err
	}
	if s.users, err = newUsers(filepath.Join(dir, "users"), s.PKI); err != nil {
		return nil, err
	}
	if err := s.writeKubeconfig(s.Kubeconfig, s.Admin()); err != nil {
		return nil, err
	}
	if s.EtcdURL, s.etcdCommand, err = e.etcdCommand(dir); err != nil {
		return nil, err
	}
	if err := s.StartEtcd(ctx); err != nil {
		return nil, err
	}
	s.etcd = plainEtcd(s.EtcdURL)
	s.command = Command{
		Name: "kube-apiserver", Path: cmp.Or(options.Binary, e.Binary("test-assets/kube-apiserver")), Dir: dir, Env: options.Env,
		Args: StockFlags(s.PKI, s.EtcdURL, "127.0.0.1", port),
	}
	if options.DropIn {
		s.command.Path = e.Binary("tripod")
		s.command.Args = append([]string{"kube-apiserver"}, s.command.Args...)
	}
	return s, s.start(ctx, options.Args)
}

// Restart stops kube-apiserver and starts it again on the same etcd and port. args replace the additional flags.
func (s *Stock) Restart(ctx context.Context, args ...string) error {
	if err := s.Process.Stop(); err != nil {
		return err
	}
	s.command.Name = nextStart(s.command.Name)
	return s.start(ctx, args)
}

// StartEtcd starts the etcd, at first or after its end. It returns when etcd is healthy.
func (s *Stock) StartEtcd(ctx context.Context) (err error) {
	s.Etcd, err = s.environment.startEtcd(ctx, s.EtcdURL, s.etcdCommand)
	s.etcdCommand.Name = nextStart(s.etcdCommand.Name)
	return err
}

// nextStart returns the name of a process when it is started again, because each start has a log of its own: etcd, etcd.2, etcd.3.
func nextStart(name string) string {
	first, number, _ := strings.Cut(name, ".")
	n, _ := strconv.Atoi(number) // the first has none
	return first + "." + strconv.Itoa(max(n, 1)+1)
}

func (s *Stock) start(ctx context.Context, args []string) (err error) {
	command := s.command
	command.Args = slices.Concat(command.Args, args)
	if s.Process, err = s.environment.Start(command); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	return s.Process.until(ctx, s.Name+" is ready", httpOK(client, s.URL+"/readyz"))
}

// StartEtcd starts an etcd with its data and log in dir. It returns the URL when etcd is healthy.
func (e *Environment) StartEtcd(ctx context.Context, dir string) (string, error) {
	url, _, err := e.StartEtcdProcess(ctx, dir)
	return url, err
}

// StartEtcdProcess is StartEtcd, and also returns the process.
func (e *Environment) StartEtcdProcess(ctx context.Context, dir string) (string, *Process, error) {
	url, command, err := e.etcdCommand(dir)
	if err != nil {
		return "", nil, err
	}
	process, err := e.startEtcd(ctx, url, command)
	return url, process, err
}

func (e *Environment) startEtcd(ctx context.Context, url string, command Command) (*Process, error) {
	process, err := e.Start(command)
	if err != nil {
		return nil, err
	}
	if Kine() != "" {
		return process, process.until(ctx, "kine answers", answers(url))
	}
	return process, process.until(ctx, "etcd is healthy", httpOK(http.DefaultClient, url+"/health"))
}

// etcdCommand returns an etcd with its data and log in dir, and its URL. In a run with kine, it is one.
func (e *Environment) etcdCommand(dir string) (string, Command, error) {
	if Kine() != "" {
		return e.kineCommand(dir)
	}
	clientPort, err := FreePort()
	if err != nil {
		return "", Command{}, err
	}
	peerPort, err := FreePort()
	if err != nil {
		return "", Command{}, err
	}
	if err := mkdir(filepath.Join(dir, "etcd")); err != nil {
		return "", Command{}, err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", clientPort), fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	return client, Command{
		Name: "etcd", Path: e.Binary("test-assets/etcd"), Dir: dir,
		Args: []string{
			"--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		},
	}, nil
}

// MakeStockPKI creates certificates and keys for kube-apiserver, in files with the names that `tripod up` uses.
func MakeStockPKI(dir string) error {
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	ca, err := store.Authority("ca", "kubernetes")
	if err != nil {
		return err
	}
	frontProxy, err := store.Authority("front-proxy-ca", "front-proxy-ca")
	if err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)}
	for _, certificate := range []struct {
		authority *certs.Authority
		name      string
		leaf      certs.Leaf
	}{
		{ca, "apiserver", certs.Leaf{CommonName: "kube-apiserver", DNSNames: names, IPs: addresses, Server: true}},
		{ca, "admin", certs.Leaf{CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}, Client: true}},
		{ca, "kubelet-client", certs.Leaf{CommonName: "kube-apiserver-kubelet-client", Client: true}},
		{frontProxy, "front-proxy-client", certs.Leaf{CommonName: "front-proxy-client", Client: true}},
	} {
		if _, err := certificate.authority.Ensure(certificate.name, certificate.leaf); err != nil {
			return err
		}
	}
	return store.EnsureSigningKey("sa")
}

// StockFlags returns the flags of a kube-apiserver with the certificates of [MakeStockPKI].
func StockFlags(pkiDir, etcd, address string, port int) []string {
	file := func(name string) string { return filepath.Join(pkiDir, name) }
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=" + address,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + file("front-proxy-client.key"),
		"--kubelet-client-certificate=" + file("kubelet-client.crt"),
		"--kubelet-client-key=" + file("kubelet-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("sa.pub"),
		"--service-account-signing-key-file=" + file("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--allow-privileged",
	}
}

// httpOK returns a condition that is true when a GET of url returns 200.
func httpOK(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // what counts is what was read
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}
