// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"net/url"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/v1alpha2"
)

// configOf returns how to reach a cluster whose credentials are in the spec.
func configOf(spec *v1alpha2.ClusterSpec) (*rest.Config, error) {
	if len(spec.Kubeconfig) > 0 {
		return fromKubeconfig(spec.Kubeconfig)
	}
	if u, err := url.Parse(spec.APIServer); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("apiserver %q is not of the form https://host:port, and there is no kubeconfig", spec.APIServer)
	}
	config := &rest.Config{Host: spec.APIServer, BearerToken: string(spec.TokenData)}
	config.TLSClientConfig = rest.TLSClientConfig{CAData: spec.CAData, CertData: spec.CertData, KeyData: spec.KeyData, Insecure: len(spec.CAData) == 0}
	if len(spec.TokenData) == 0 && (len(spec.CertData) == 0 || len(spec.KeyData) == 0) {
		return nil, errors.New("there are no credentials: neither tokenData, nor certData with keyData")
	}
	return config, nil
}

// fromKubeconfig reads a kubeconfig that comes from somebody else: it may name no programs and no files of this machine.
func fromKubeconfig(text []byte) (*rest.Config, error) {
	raw, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	for name, user := range raw.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("kubeconfig: user %s runs a program for its credentials: use a token or a certificate", name)
		}
		if user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
			return nil, fmt.Errorf("kubeconfig: user %s names files: use kubectl config view --flatten --minify", name)
		}
	}
	for name, cluster := range raw.Clusters {
		if cluster.CertificateAuthority != "" {
			return nil, fmt.Errorf("kubeconfig: cluster %s names a file: use kubectl config view --flatten --minify", name)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// rulesOf returns what to copy. shared are the resources of the ClusterSyncResources that the cluster names.
func rulesOf(spec *v1alpha2.ClusterSpec, shared []v1alpha2.GroupResources) (rules []member.Rule) {
	for _, resources := range [][]v1alpha2.GroupResources{spec.SyncResources, shared} {
		for _, r := range resources {
			rules = append(rules, member.Rule{Group: r.Group, Versions: r.Versions, Resources: r.Resources, Events: r.EventsInvolvedResources})
		}
	}
	if spec.MemberRBAC != nil {
		rules = append(rules, member.Rule{Group: rbacv1.GroupName, Versions: []string{rbacv1.SchemeGroupVersion.Version}, Resources: sets.List(rights.Resources)})
	}
	if spec.SyncAllCustomResources {
		rules = append(rules, member.Rule{Group: "*", Resources: []string{"*"}, Custom: true})
	}
	return rules
}
