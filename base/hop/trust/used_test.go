// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"net/url"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestRightsThatServicesUseAreNoted(t *testing.T) {
	directory := t.TempDir()
	t.Setenv(UsedRightsVariable, directory)
	a := NewAuthorizer("", rights)
	for _, request := range []authorizer.AttributesRecord{
		path("get", "/apis"),
		resource("create", "rbac.authorization.k8s.io", "roles"), // denied
		path("get", "/openapi/v3/apis/apps/v1"),
	} {
		request.User = &service{user.DefaultInfo{Name: Aggregator}}
		if _, _, err := a.Authorize(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	further := resource("get", "", "namespaces")
	further.User = &service{user.DefaultInfo{Name: UserOf("wardle")}}
	_, _, err := a.Authorize(t.Context(), further)
	require.NoError(t, err)
	files, err := os.ReadDir(directory)
	require.NoError(t, err)
	var used []string
	for _, file := range files {
		right, err := url.PathUnescape(file.Name())
		require.NoError(t, err)
		used = append(used, right)
	}
	slices.Sort(used)
	assert.Equal(t, []string{"NAME: get namespaces", "aggregator: get /apis", "aggregator: get /openapi/*"}, used)
}

func TestNothingIsNotedWithoutADirectory(t *testing.T) {
	t.Setenv(UsedRightsVariable, "")
	if used := newUsedRights(); used != nil {
		t.Errorf("rights are noted in %q", used.directory)
	}
}
