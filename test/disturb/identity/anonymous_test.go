// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/test/framework"
)

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// An aggregator lets anonymous clients in, and an administrator has forgotten the mode of authorization of the backends.
func TestAnonymousClientsMayDoNothingWhereEverythingIsAllowed(t *testing.T) {
	t.Parallel()
	fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--authorization-mode=AlwaysAllow"}},
		{Name: "extensions-0", Args: []string{"--authorization-mode=AlwaysAllow"}},
	}})
	for replica, path := range map[string]string{
		"core-0":       "/api/v1/namespaces/kube-system/secrets",
		"extensions-0": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	} {
		for _, step := range []struct {
			sender user.Info
			want   int
		}{{anonymous, http.StatusUnauthorized}, {&user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}, http.StatusOK}} {
			code, err := get(t.Context(), fleet.As(replica, step.sender), path)
			if err != nil || code != step.want {
				t.Errorf("%s answers %d to %s, %v; want %d", replica, code, step.sender.GetName(), err, step.want)
			}
		}
	}
}

// An aggregator that has another mode than the backends does not become ready, and reports why.
func TestServicesAgreeWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--anonymous-auth=false"}},
		{Name: "extensions-0", Args: []string{"--authorization-mode=AlwaysAllow"}},
		{Name: "aggregator-0", Later: true},
	}})
	aggregator := fleet.Replica("aggregator-0")
	require.NoError(t, aggregator.Start())
	framework.Eventually(t, "the aggregator says how the settings differ", func(ctx context.Context) error {
		return answers(ctx, aggregator.ProbeURL+"/readyz/same-settings-once", http.StatusInternalServerError,
			"--anonymous-auth is true here and false there", "--authorization-mode is RBAC here and RBAC,AlwaysAllow there")
	})
}
