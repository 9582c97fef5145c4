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
	"k8s.io/utils/ptr"
)

// Token lets a node join.
type Token struct {
	// Token is the secret, as in abcdef.0123456789abcdef.
	Token string `json:"token"`
	// Expires is when it ends. It is nil if it never does.
	Expires *time.Time `json:"expires,omitempty"`
	// Endpoint is the host and port at which nodes reach the API.
	Endpoint string `json:"endpoint"`
	// CACertHashes are the hashes of the authorities that [Prepare] published, as in sha256:0123....
	CACertHashes []string `json:"caCertHashes"`
	// Command is what a node runs to join. It pins the authorities.
	Command string `json:"command"`
}

// MakeToken makes a bootstrap token that ends after ttl, or never if that is 0.
func MakeToken(ctx context.Context, client kubernetes.Interface, ttl time.Duration, description string) (*Token, error) {
	info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("no node can join yet: run `tripod join prepare`, or install the chart with join.enabled")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read how nodes reach the API: %w", err)
	}
	made := &Token{}
	if made.Endpoint, made.CACertHashes, err = parseInfo([]byte(info.Data[bootstrapapi.KubeConfigKey])); err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s: %w", info.Namespace, info.Name, err)
	}
	if made.Token, err = bootstraputil.GenerateBootstrapToken(); err != nil {
		return nil, err
	}
	token := bootstraptokenv1.BootstrapToken{Description: description, TTL: &metav1.Duration{Duration: ttl}}
	if ttl > 0 {
		// A time of its own, and not a TTL, is the same here and in the Secret.
		made.Expires = ptr.To(time.Now().Add(ttl).UTC().Truncate(time.Second))
		token.TTL, token.Expires = nil, &metav1.Time{Time: *made.Expires}
	}
	if token.Token, err = bootstraptokenv1.NewBootstrapTokenString(made.Token); err != nil {
		return nil, err
	}
	bootstraptokenv1.SetDefaults_BootstrapToken(&token)
	if err := node.CreateNewTokens(client, []bootstraptokenv1.BootstrapToken{token}); err != nil {
		return nil, err
	}
	made.Command = fmt.Sprintf("kubeadm join %s --token %s", made.Endpoint, made.Token)
	for _, pin := range made.CACertHashes {
		made.Command += " --discovery-token-ca-cert-hash " + pin
	}
	return made, nil
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
