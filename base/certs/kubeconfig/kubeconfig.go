// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig writes kubeconfigs of users with a certificate. It is not part of package certs, because it links much of client-go.
package kubeconfig

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Content is what is in a kubeconfig.
type Content struct {
	// Name is that of its cluster, user and context.
	Name   string
	Server string
	// Authority is the CA to trust, Certificate and Key are the user's. All are PEM.
	Authority, Certificate, Key []byte
}

// Encode returns the kubeconfig.
func Encode(c Content) ([]byte, error) {
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
