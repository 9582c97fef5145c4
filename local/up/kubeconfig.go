// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"maps"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// contextName is the name of the cluster, the user and the context in the kubeconfig.
const contextName = "tripod"

// writeKubeconfig writes a kubeconfig that needs no other file. What else the kubeconfig of an earlier start has stays there.
func writeKubeconfig(path, server string, store *certs.Store) error {
	var contents [3][]byte
	for i, file := range []string{store.CertFile(clusterCA), store.CertFile(admin), store.KeyFile(admin)} {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("cannot write the kubeconfig: %w", err)
		}
		contents[i] = data
	}
	data, err := kubeconfig.Encode(kubeconfig.Content{
		Name: contextName, Server: server, Authority: contents[0], Certificate: contents[1], Key: contents[2],
	})
	if err != nil {
		return err
	}
	if data, err = withFormerEntries(data, path); err != nil {
		return fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	return atomicfile.Write(path, data)
}

// withFormerEntries returns a kubeconfig and what the file that it replaces has besides, such as the clusters of `tripod search
// kubeconfig`. Clusters below the address of the former server are below the new one then.
func withFormerEntries(data []byte, path string) ([]byte, error) {
	all := ownKubeconfig(path)
	if all == nil {
		return data, nil
	}
	own, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	before, now := all.Clusters[contextName], own.Clusters[contextName]
	for _, cluster := range all.Clusters {
		if below, ok := strings.CutPrefix(cluster.Server, before.Server+"/"); ok {
			cluster.Server, cluster.CertificateAuthorityData = now.Server+"/"+below, now.CertificateAuthorityData
		}
	}
	maps.Copy(all.Clusters, own.Clusters)
	maps.Copy(all.AuthInfos, own.AuthInfos)
	maps.Copy(all.Contexts, own.Contexts)
	all.CurrentContext = own.CurrentContext
	return clientcmd.Write(*all)
}

// ownKubeconfig reads a kubeconfig that `tripod up` has written. It returns nil where the file is missing, unreadable or not such a
// kubeconfig.
func ownKubeconfig(path string) *clientcmdapi.Config {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil || config.Clusters[contextName] == nil {
		return nil
	}
	return config
}
