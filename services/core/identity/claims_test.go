// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package identity

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// claims returns the claims of a token for an hour.
func claims(t *testing.T, account metav1.ObjectMeta, pod *api.Pod, secret *api.Secret, node *api.Node) (public *jwt.Claims, private any) {
	t.Helper()
	public, private, err := serviceaccount.Claims(
		api.ServiceAccount{ObjectMeta: account}, pod, secret, node, nil, nil, 3600, 0, []string{ownIssuer}, nil)
	require.NoError(t, err)
	return public, private
}
