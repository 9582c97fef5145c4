// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/internal/atomicfile"
	"github.com/tripod-k8s/tripod/internal/pki"
)

// contextName is the name of cluster, user and context in the kubeconfig.
const contextName = "tripod"

// writeKubeconfig writes a kubeconfig that needs no other file.
func writeKubeconfig(path, server string, store *pki.Store) error {
	var contents [3][]byte
	for i, file := range []string{store.CertFile(clusterCA), store.CertFile(admin), store.KeyFile(admin)} {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("cannot write the kubeconfig: %w", err)
		}
		contents[i] = data
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: contents[0]}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	return atomicfile.Write(path, data)
}
