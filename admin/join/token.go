// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstraptokenv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/bootstraptoken/v1"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/bootstraptoken/node"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pubkeypin"
)

// Command makes a bootstrap token that ends after ttl, and returns the command with which a node joins by it. The command pins the
// authorities that [Prepare] published.
func Command(ctx context.Context, client kubernetes.Interface, ttl time.Duration, description string) (string, error) {
	info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", errors.New("no node can join yet: run `tripod join prepare`, or install the chart with join.enabled")
	}
	if err != nil {
		return "", fmt.Errorf("cannot read how nodes reach the API: %w", err)
	}
	endpoint, pins, err := parseInfo([]byte(info.Data[bootstrapapi.KubeConfigKey]))
	if err != nil {
		return "", fmt.Errorf("the ConfigMap %s/%s: %w", info.Namespace, info.Name, err)
	}
	generated, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return "", err
	}
	token := bootstraptokenv1.BootstrapToken{TTL: &metav1.Duration{Duration: ttl}, Description: description}
	if token.Token, err = bootstraptokenv1.NewBootstrapTokenString(generated); err != nil {
		return "", err
	}
	bootstraptokenv1.SetDefaults_BootstrapToken(&token)
	if err := node.CreateNewTokens(client, []bootstraptokenv1.BootstrapToken{token}); err != nil {
		return "", err
	}
	command := fmt.Sprintf("kubeadm join %s --token %s", endpoint, generated)
	for _, pin := range pins {
		command += " --discovery-token-ca-cert-hash " + pin
	}
	return command, nil
}

// parseInfo returns the endpoint in a cluster-info and the hashes of its authorities.
func parseInfo(data []byte) (endpoint string, pins []string, err error) {
	info, err := clientcmd.Load(data)
	if err != nil {
		return "", nil, err
	}
	_, cluster, err := kubeconfig.GetClusterFromKubeConfig(info)
	if err != nil {
		return "", nil, err
	}
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return "", nil, err
	}
	authorities, err := cert.ParseCertsPEM(cluster.CertificateAuthorityData)
	if err != nil {
		return "", nil, err
	}
	for _, authority := range authorities {
		pins = append(pins, pubkeypin.Hash(authority))
	}
	return server.Host, pins, nil
}
