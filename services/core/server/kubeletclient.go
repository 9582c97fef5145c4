// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/util/cert"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
)

const (
	kubeletClientBinding = "tripod:kubelet-client"
	// kubeletAPIAdmin is a role of kube-apiserver's bootstrap policy.
	kubeletAPIAdmin = "system:kubelet-api-admin"
)

// bindKubeletClient binds the user of the certificate to the role for the API of kubelets when the server starts, as kube-apiserver creates
// its default bindings. Kubelets ask this API server what the user may do.
func bindKubeletClient(server *genericapiserver.GenericAPIServer, certificate string) error {
	chain, err := cert.CertsFromFile(certificate)
	if err != nil {
		return fmt.Errorf("--kubelet-client-certificate: %w", err)
	}
	policy := rbacrest.PolicyData{ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletClientBinding, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kubeletAPIAdmin},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: chain[0].Subject.CommonName}},
	}}}
	return server.AddPostStartHook("tripod/bind-kubelet-client", policy.EnsureRBACPolicy())
}
