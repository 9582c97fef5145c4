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

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/certs/privatedir"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Stages define for kwok how nodes and pods change: a node is ready, a pod runs at once, and is gone at once when it is deleted. They also
// disable what kwok would serve to all users of this machine.
//
//go:embed stages.yaml
var Stages []byte

// Program returns the path of the binary with kube-controller-manager and kube-scheduler.
func Program() (string, error) {
	path, err := replicas.Binary("tripod-controllers")
	if err != nil {
		return "", fmt.Errorf("%w: run make controllers in a checkout", err)
	}
	return path, nil
}

// KwokProgram returns the path of kwok, which is beside tripod or in the PATH.
func KwokProgram() (string, error) {
	if path, err := replicas.Binary(names.Kwok); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(names.Kwok)
	if err != nil {
		return "", errors.New("--kwok-nodes needs kwok, beside tripod or in the PATH: see https://kwok.sigs.k8s.io, " +
			"or run make controllers in a checkout")
	}
	return path, nil
}

// server is the name of the certificate with which both serve their probes and metrics.
const server = "controllers"

// Config says what the controllers need.
type Config struct {
	// Store has the cluster's CA, the key that signs the tokens of ServiceAccounts, and the certificate of an administrator, by these names.
	// kwok is the administrator.
	Store                                     *certs.Store
	Authority, ServiceAccounts, Administrator string
	// URL is where the API is served.
	URL string
	// Directory is for the files of the controllers.
	Directory string
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
		if err := c.writeKubeconfig(component, component); err != nil {
			return err
		}
	}
	return c.writeKubeconfig(names.Kwok, c.Administrator)
}

func (c Config) kubeconfig(component string) string {
	return filepath.Join(c.Directory, component+".kubeconfig")
}

// writeKubeconfig writes a kubeconfig that names files, those of a certificate, so that its reader notices when they change.
func (c Config) writeKubeconfig(component, certificate string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[component] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthority: c.Store.CertFile(c.Authority)}
	config.AuthInfos[component] = &clientcmdapi.AuthInfo{
		ClientCertificate: c.Store.CertFile(certificate), ClientKey: c.Store.KeyFile(certificate),
	}
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
	keys := Keys{CA: c.Store.CertFile(c.Authority), CAKey: c.Store.KeyFile(c.Authority), ServiceAccounts: c.Store.KeyFile(c.ServiceAccounts)}
	manager, err := c.process(names.Manager, path, "kube-controller-manager", ManagerArgs(c.kubeconfig(names.Manager), c.Directory, keys))
	if err != nil {
		return nil, err
	}
	scheduler, err := c.process(names.Scheduler, path, "kube-scheduler", SchedulerArgs(c.kubeconfig(names.Scheduler)))
	return []process.Process{manager, scheduler}, err
}

// Keys are the files of a cluster's CA, of the key of the CA, and of the key that signs the tokens of ServiceAccounts.
type Keys struct{ CA, CAKey, ServiceAccounts string }

// ManagerArgs are the flags of a kube-controller-manager without rival. It may write to the directory.
func ManagerArgs(kubeconfig, directory string, keys Keys) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + keys.ServiceAccounts,
		"--root-ca-file=" + keys.CA,
		"--cluster-signing-cert-file=" + keys.CA,
		"--cluster-signing-key-file=" + keys.CAKey,
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--flex-volume-plugin-dir=" + filepath.Join(directory, "flexvolume"), // the default is a directory of root
	}
}

// SchedulerArgs are the flags of a kube-scheduler without rival.
func SchedulerArgs(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false"}
}

// process returns how to run one of the programs with flags, and with those by which it serves its probes and metrics.
func (c Config) process(component, path, name string, args []string) (process.Process, error) {
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
			"--authentication-kubeconfig=" + c.kubeconfig(component),
			"--authorization-kubeconfig=" + c.kubeconfig(component),
			"--bind-address=127.0.0.1",
			"--secure-port=" + port.Number(),
			"--tls-cert-file=" + c.Store.CertFile(server),
			"--tls-private-key-file=" + c.Store.KeyFile(server),
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
		Args:        append(KwokArgs(c.kubeconfig(names.Kwok), takeOver, stages), "--server-address="+port.Address()),
		Output:      c.Log(names.Kwok + "-0"),
		Address:     "http://" + port.Address(),
		BeforeStart: port.Release,
		Ready:       process.NewProbe("http://"+port.Address()+"/healthz", nil).Ready,
		Version:     replicas.BinaryVersion(path),
	}, nil
}

// takeOver is how long a kwok that was started again waits until it manages the nodes of the one before. A quarter of this is how often
// each renews its Lease.
const takeOver = 10 * time.Second

// KwokArgs are the flags by which kwok manages the nodes of [CreateNode] only. A Lease says for how long no other process manages a node.
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
