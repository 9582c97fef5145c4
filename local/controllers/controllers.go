// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/internal/certs"
	"github.com/tripod-k8s/tripod/internal/certs/privatedir"
	"github.com/tripod-k8s/tripod/internal/service/atomicfile"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Stages tell kwok how nodes and pods change: a node is ready, a pod runs at once, and is gone at once when it is deleted.
//
//go:embed stages.yaml
var Stages []byte

// Program returns the path of the binary with kube-controller-manager and kube-scheduler.
func Program() (string, error) { return replicas.Binary("tripod-controllers") }

// KwokProgram returns the path of kwok, which is beside tripod or in the PATH.
func KwokProgram() (string, error) {
	if path, err := replicas.Binary(names.Kwok); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(names.Kwok)
	if err != nil {
		return "", errors.New("--kwok-nodes needs kwok, beside tripod or in the PATH: see https://kwok.sigs.k8s.io, or run make controllers in a checkout")
	}
	return path, nil
}

// server is the name of the certificate with which both serve their probes and metrics.
const server = "controllers"

// Config says what the controllers need.
type Config struct {
	// Store has the cluster's CA and the key that signs the tokens of ServiceAccounts, by these names.
	Store                      *certs.Store
	Authority, ServiceAccounts string
	// URL is where the API is served.
	URL string
	// Directory is for the files of the controllers.
	Directory string
	// Kubeconfig is that of an administrator, for kwok.
	Kubeconfig string
	// Log returns the log of a replica.
	Log func(replica string) process.Output
}

// users are whom RBAC knows the components by.
var users = map[string]string{names.Manager: user.KubeControllerManager, names.Scheduler: user.KubeScheduler}

// Ensure makes and renews the certificates and kubeconfigs of the controllers. They read new ones by themselves.
func (c Config) Ensure(authority *certs.Authority) error {
	leaves := map[string]certs.Leaf{server: {CommonName: server, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true}}
	for component, name := range users {
		leaves[component] = certs.Leaf{CommonName: name, Client: true}
	}
	for name, leaf := range leaves {
		if _, err := authority.Ensure(name, leaf); err != nil {
			return err
		}
	}
	if err := privatedir.Make(c.Directory); err != nil {
		return err
	}
	for component := range users {
		if err := c.writeKubeconfig(component); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) kubeconfig(component string) string {
	return filepath.Join(c.Directory, component+".kubeconfig")
}

// writeKubeconfig writes a kubeconfig that names files, so that its reader notices when they change.
func (c Config) writeKubeconfig(component string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[component] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthority: c.Store.CertFile(c.Authority)}
	config.AuthInfos[component] = &clientcmdapi.AuthInfo{ClientCertificate: c.Store.CertFile(component), ClientKey: c.Store.KeyFile(component)}
	config.Contexts[component] = &clientcmdapi.Context{Cluster: component, AuthInfo: component}
	config.CurrentContext = component
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("cannot write the kubeconfig of %s: %w", component, err)
	}
	return atomicfile.Write(c.kubeconfig(component), data)
}

// Processes returns how to run kube-controller-manager and kube-scheduler.
func (c Config) Processes() ([]process.Process, error) {
	path, err := Program()
	if err != nil {
		return nil, err
	}
	manager, err := c.process(names.Manager, path, "kube-controller-manager",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.Store.KeyFile(c.ServiceAccounts),
		"--root-ca-file="+c.Store.CertFile(c.Authority),
		"--cluster-signing-cert-file="+c.Store.CertFile(c.Authority),
		"--cluster-signing-key-file="+c.Store.KeyFile(c.Authority),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--flex-volume-plugin-dir="+filepath.Join(c.Directory, "flexvolume"), // the default is a directory of root
	)
	if err != nil {
		return nil, err
	}
	scheduler, err := c.process(names.Scheduler, path, "kube-scheduler")
	return []process.Process{manager, scheduler}, err
}

// process returns how to run one of the programs. It has no rival, so it elects no leader.
func (c Config) process(component, path, name string, args ...string) (process.Process, error) {
	port, err := replicas.ReservePort()
	if err != nil {
		return process.Process{}, err
	}
	asClient, err := replicas.ClientTLS(c.Store, c.Authority, component)
	if err != nil {
		return process.Process{}, err
	}
	replica := component + "-0"
	return process.Process{
		Component: component,
		Replica:   replica,
		Path:      path,
		Args: append([]string{
			name,
			"--kubeconfig=" + c.kubeconfig(component),
			"--authentication-kubeconfig=" + c.kubeconfig(component),
			"--authorization-kubeconfig=" + c.kubeconfig(component),
			"--bind-address=127.0.0.1",
			"--secure-port=" + port.Number(),
			"--tls-cert-file=" + c.Store.CertFile(server),
			"--tls-private-key-file=" + c.Store.KeyFile(server),
			"--leader-elect=false",
		}, args...),
		Output:      c.Log(replica),
		Address:     port.URL(),
		BeforeStart: port.Release,
		Ready:       process.NewProbe(port.URL()+"/healthz", asClient).Ready,
		Version:     replicas.BinaryVersion(path, name),
	}, nil
}

// KwokProcess returns how to run kwok for the nodes that [EnsureNodes] makes.
func (c Config) KwokProcess() (process.Process, error) {
	path, err := KwokProgram()
	if err != nil {
		return process.Process{}, err
	}
	if err := privatedir.Make(c.Directory); err != nil {
		return process.Process{}, err
	}
	stages := filepath.Join(c.Directory, "stages.yaml")
	if err := atomicfile.Write(stages, Stages); err != nil {
		return process.Process{}, err
	}
	port, err := replicas.ReservePort()
	if err != nil {
		return process.Process{}, err
	}
	return process.Process{
		Component:   names.Kwok,
		Replica:     names.Kwok + "-0",
		Path:        path,
		Args:        append(KwokArgs(c.Kubeconfig, takeOver, stages), "--server-address="+port.Address()),
		Output:      c.Log(names.Kwok + "-0"),
		Address:     "http://" + port.Address(),
		BeforeStart: port.Release,
		Ready:       process.NewProbe("http://"+port.Address()+"/healthz", nil).Ready,
		Version:     replicas.BinaryVersion(path),
	}, nil
}

// takeOver is how long a kwok that was started again waits until it manages the nodes of the one before. A quarter of this is how often each renews
// its Lease.
const takeOver = 10 * time.Second

// KwokArgs are the flags by which kwok manages the nodes of [CreateNode] only. A Lease says for how long nobody else manages a node.
func KwokArgs(kubeconfig string, lease time.Duration, stages ...string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + kwokNode + "=fake",
		"--node-lease-duration-seconds=" + strconv.Itoa(int(lease.Seconds())),
		"--node-ip=192.0.2.1", // of a range for documentation (RFC 5737)
	}
	for _, file := range stages {
		args = append(args, "--config="+file)
	}
	return args
}
