// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is what is in a kubeconfig.
type Kubeconfig struct {
	// Name is that of its cluster, user and context.
	Name   string
	Server string
	// Authority is the CA to trust, Certificate and Key are the user's. All are PEM.
	Authority, Certificate, Key []byte
}

// EncodeKubeconfig returns the kubeconfig.
func EncodeKubeconfig(c Kubeconfig) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: c.Authority}
	config.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	config.CurrentContext = c.Name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	return data, nil
}
