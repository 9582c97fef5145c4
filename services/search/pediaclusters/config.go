// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/rights"
)

// configOf returns how to reach a cluster whose credentials are in the spec.
func configOf(spec *v1alpha2.ClusterSpec) (*rest.Config, error) {
	if len(spec.Kubeconfig) > 0 {
		return fromKubeconfig(spec.Kubeconfig)
	}
	if _, err := canonical(spec.APIServer); err != nil {
		return nil, fmt.Errorf("apiserver %q is not of the form https://host:port, and there is no kubeconfig", spec.APIServer)
	}
	config := &rest.Config{Host: spec.APIServer, BearerToken: string(spec.TokenData)}
	config.TLSClientConfig = rest.TLSClientConfig{
		CAData: spec.CAData, CertData: spec.CertData, KeyData: spec.KeyData, Insecure: len(spec.CAData) == 0,
	}
	if len(spec.TokenData) == 0 && (len(spec.CertData) == 0 || len(spec.KeyData) == 0) {
		return nil, errors.New("there are no credentials: neither tokenData, nor certData with keyData")
	}
	return config, nil
}

// maxKubeconfig bounds a kubeconfig.
const maxKubeconfig = 256 << 10

// withAccount says what to do with a kubeconfig that only its owner can use.
const withAccount = "add the cluster with tripod search clusters add --context CONTEXT, which creates an account for search"

// fromKubeconfig reads a kubeconfig that comes from outside: it may name no programs and no files of this machine.
func fromKubeconfig(text []byte) (*rest.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("kubeconfig: it has more than %d KiB: use kubectl config view --flatten --minify", maxKubeconfig>>10)
	}
	if err := refuseAliases(text); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	raw, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	for name, user := range raw.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("kubeconfig: user %s runs a program for its credentials: %s", name, withAccount)
		}
		if user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
			return nil, fmt.Errorf("kubeconfig: user %s names files: %s", name, withAccount)
		}
	}
	for name, cluster := range raw.Clusters {
		if cluster.CertificateAuthority != "" {
			return nil, fmt.Errorf("kubeconfig: cluster %s names a file: %s", name, withAccount)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// refuseAliases refuses YAML that repeats a part of itself: a few kilobytes of it can be gigabytes of JSON, which is how a kubeconfig is
// read.
func refuseAliases(text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return errors.New("it is not YAML") // the error may have credentials
	}
	nodes := []*yaml.Node{&document}
	for len(nodes) > 0 {
		last := nodes[len(nodes)-1]
		if last.Kind == yaml.AliasNode {
			return fmt.Errorf("line %d has a YAML alias: use kubectl config view --flatten --minify", last.Line)
		}
		nodes = append(nodes[:len(nodes)-1], last.Content...)
	}
	return nil
}

// rulesOf returns what to copy. shared are the resources of the ClusterSyncResources that the cluster names.
func rulesOf(spec *v1alpha2.ClusterSpec, shared []v1alpha2.GroupResources) (rules []member.Rule) {
	for _, resources := range [][]v1alpha2.GroupResources{spec.SyncResources, shared} {
		for _, r := range resources {
			rules = append(rules, member.Rule{Group: r.Group, Versions: r.Versions, Resources: r.Resources, Events: r.EventsInvolvedResources})
		}
	}
	if spec.MemberRBAC != nil { // Namespaces say whose the past of a namespace is
		rules = append(rules, member.Rule{Versions: []string{"v1"}, Resources: []string{"namespaces"}})
		rules = append(rules, member.Rule{Group: rbacv1.GroupName, Versions: []string{rbacv1.SchemeGroupVersion.Version},
			Resources: sets.List(rights.Resources)})
	}
	if spec.SyncAllCustomResources {
		rules = append(rules, member.Rule{Group: "*", Resources: []string{"*"}, Custom: true})
	}
	return rules
}
