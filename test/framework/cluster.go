// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/base/certs"
)

// Cluster is a running Kubernetes API.
type Cluster struct {
	// Name distinguishes the clusters of a test: "tripod", "stock".
	Name string
	// URL is where clients reach it, https://127.0.0.1:PORT.
	URL string
	// DataDir holds its etcd data and certificates.
	DataDir string
	// PKI holds the certificates: ca, front-proxy-ca, admin and so on, as base/certs lays them out.
	PKI string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	users *users
	// etcd is how to reach the etcd.
	etcd func(context.Context) (clientv3.Config, error)
}

// CAFile returns the path of the CA bundle of the API's certificate.
func (c *Cluster) CAFile() string { return filepath.Join(c.PKI, "ca.crt") }

// Admin returns a configuration for a user in the group system:masters.
func (c *Cluster) Admin() *rest.Config {
	return c.config(filepath.Join(c.PKI, "admin.crt"), filepath.Join(c.PKI, "admin.key"))
}

// Anonymous returns a configuration without credentials, to which a test may add a BearerToken.
func (c *Cluster) Anonymous() *rest.Config { return c.config("", "") }

// UserConfig returns a configuration for a user in groups, with a client certificate signed by the client CA.
func (c *Cluster) UserConfig(name string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.users.certificate(name, groups)
	if err != nil {
		return nil, fmt.Errorf("cannot make user %s: %w", name, err)
	}
	return c.config(cert, key), nil
}

// config returns a configuration without client-side rate limits.
func (c *Cluster) config(cert, key string) *rest.Config {
	return &rest.Config{
		Host:            c.URL,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile(), CertFile: cert, KeyFile: key},
		QPS:             -1,
		UserAgent:       "tripod-test",
	}
}

// UserKubeconfig writes a kubeconfig for a user to dir, and returns its path.
func (c *Cluster) UserKubeconfig(dir, user string) (string, error) {
	config, err := c.UserConfig(user)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, user+".kubeconfig")
	return path, c.writeKubeconfig(path, config)
}

func (c *Cluster) writeKubeconfig(path string, user *rest.Config) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthority: user.CAFile}
	config.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{ClientCertificate: user.CertFile, ClientKey: user.KeyFile}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	config.CurrentContext = c.Name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("cannot write kubeconfig: %w", err)
	}
	return nil
}

// PortableKubeconfig returns a kubeconfig that names no other file.
func PortableKubeconfig(config *rest.Config) ([]byte, error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	whole := clientcmdapi.NewConfig()
	whole.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	whole.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	whole.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	whole.CurrentContext = "x"
	return clientcmd.Write(*whole)
}

// users issues client certificates with a copy of the cluster's CA, so that the cluster's own directory stays as it is.
type users struct {
	mu    sync.Mutex
	store *certs.Store
	ca    *certs.Authority
}

func newUsers(dir, clusterPKI string) (*users, error) {
	store, err := certs.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := copyFile(filepath.Join(clusterPKI, name), filepath.Join(dir, name), 0o600); err != nil {
			return nil, fmt.Errorf("cannot copy the CA: %w", err)
		}
	}
	ca, err := store.Authority("ca", "")
	if err != nil {
		return nil, err
	}
	return &users{store: store, ca: ca}, nil
}

func (u *users) certificate(name string, groups []string) (certFile, keyFile string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	file := strings.NewReplacer("/", "_", ":", "_").Replace(strings.Join(append([]string{"user", name}, groups...), "."))
	_, err = u.ca.Ensure(file, certs.Leaf{CommonName: name, Organizations: groups, Client: true})
	return u.store.CertFile(file), u.store.KeyFile(file), err
}

// FreePort returns a TCP port of the loopback address on which no program listens.
func FreePort() (int, error) {
	const tries = 200
	var err error
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("cannot find a free port: %w", err)
}

// Ports come from below those that the system gives to connections and those that Tripod chooses. A process may start long after its port
// was chosen, and start again.
const (
	firstPort = 10000
	lastPort  = 19999
)

// givenPorts are the ports that FreePort has returned. It returns each once.
var givenPorts sync.Map

// mkdir creates a directory that only its owner can enter, as etcd demands.
func mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a directory for the test: %w", err)
	}
	return nil
}
