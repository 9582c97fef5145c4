// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/base/certs"
)

const (
	etcdCAFlag   = "etcd-cafile"
	etcdCertFlag = "etcd-certfile"
	etcdKeyFlag  = "etcd-keyfile"
	// NoEtcdCAKey has all services use kube-apiserver's client certificate of etcd.
	NoEtcdCAKey = "none"
)

// EtcdRootCert and EtcdRootKey are the names of the files in --cert-dir by which `tripod etcd access` is root in etcd.
const (
	EtcdRootCert = etcdRoot + ".crt"
	EtcdRootKey  = etcdRoot + ".key"
	etcdRoot     = "etcd-root"
)

// etcdClients are the client certificates of etcd.
type etcdClients struct {
	store *certs.Store
	// own is whether each service has a certificate of its own. Otherwise all have that of kube-apiserver, if there is one.
	own bool
	// note says why they share one.
	note string
}

// ensureEtcdClients issues a client certificate of etcd for each service and for root, if the node has the key of etcd's CA. The flags in
// the manifest name the CA. Each certificate has the user of its service, so nothing needs to change when users are turned on in etcd.
func (p StaticPods) ensureEtcdClients(on *node, store *certs.Store, given []flagValue) (*etcdClients, error) {
	clients := &etcdClients{store: store}
	caFile, certFile := last(given, etcdCAFlag), last(given, etcdCertFlag)
	switch {
	case certFile == "":
		return clients, nil // etcd asks for no certificate
	case p.EtcdCAKey == NoEtcdCAKey:
		clients.note = "all services use kube-apiserver's client certificate of etcd"
		return clients, nil
	case caFile == "":
		clients.note = "all services use kube-apiserver's client certificate of etcd, because the manifest has no --" + etcdCAFlag
		return clients, nil
	}
	keyFile := p.EtcdCAKey
	if keyFile == "" {
		keyFile = strings.TrimSuffix(caFile, filepath.Ext(caFile)) + ".key"
		if _, err := os.Stat(keyFile); errors.Is(err, os.ErrNotExist) {
			clients.note = "all services use kube-apiserver's client certificate of etcd, because there is no key " + keyFile +
				" of the CA to issue others"
			return clients, nil
		}
	}
	ca, err := store.ExternalAuthority(caFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	users := map[string]string{etcdRoot: access.Root}
	for _, service := range on.services {
		users[etcdClientOf(service)] = access.UserOf(string(service))
	}
	for name, user := range users {
		if _, err := ca.Ensure(name, certs.Leaf{CommonName: user, Client: true}); err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
	}
	clients.own = true
	return clients, nil
}

// replace replaces the flags with kube-apiserver's certificate by those with the certificate of the service.
func (c *etcdClients) replace(service serviceName, flags []string) []string {
	if !c.own {
		return flags
	}
	flags = slices.DeleteFunc(flags, func(flag string) bool {
		return strings.HasPrefix(flag, "--"+etcdCertFlag+"=") || strings.HasPrefix(flag, "--"+etcdKeyFlag+"=")
	})
	name := etcdClientOf(service)
	return append(flags, "--"+etcdCertFlag+"="+c.store.CertFile(name), "--"+etcdKeyFlag+"="+c.store.KeyFile(name))
}

// etcdClientOf returns the name of the certificate of a service for etcd.
func etcdClientOf(service serviceName) string { return "etcd-" + string(service) }

// last returns the value that counts of a flag.
func last(given []flagValue, name string) string {
	value := ""
	for _, flag := range given {
		if flag.name == name {
			value = flag.value
		}
	}
	return value
}
