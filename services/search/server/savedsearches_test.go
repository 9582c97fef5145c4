// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/search/savedsearches"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

func TestSavedSearchesAreCountedByTheRightsOfTheirUsers(t *testing.T) {
	databases, err := storetest.Start()
	require.NoError(t, err)
	defer databases.Stop()
	databases.Each(t, testSavedSearches)
}

func testSavedSearches(t *testing.T, location string) {
	c := newClusterAt(t, location)
	c.allow(t, "one", "default", rule("list", "pods", "web-2"))
	c.allow(t, "inside", "default", rule("list", "pods"))
	c.allow(t, "elsewhere", "other", rule("list", "pods"))
	c.allow(t, "gets", "default", rule("get", "pods"))
	all := metav1.ObjectMeta{Name: "group"}
	c.write(t, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: all, Rules: []rbacv1.PolicyRule{rule("list", "nodes")}}, false)
	c.write(t, "clusterrolebindings", &rbacv1.ClusterRoleBinding{
		ObjectMeta: all, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "group"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "group"}},
	}, false)
	c.grants = []string{"admin get collectionresources any"}
	h, by := NewHandler(c.Store, c.rights, http.NotFoundHandler()), NewAuthorizer(c, c.rights)
	const everything = "groups=apps&resources=/pods,/nodes"
	for _, test := range []struct {
		user, parameters string
		want             int64
	}{
		{"admin", everything, 6},
		{"admin", everything + "&clusters=east", 2},
		{"admin", "resources=/pods&names=web-1", 1},
		{"admin", "resources=/pods&limit=1&orderby=name&withContinue=true&groupBy=kind&onlyMetadata=true&offset=1", 2},
		{"admin", "groups=none.example.com", 0},
		{"inside", everything, 2},
		{"one", everything, 1},
		{"elsewhere", everything, 0},
		{"gets", everything, 0},
		{"in-group", everything, 1},
	} {
		parameters, err := url.ParseQuery(test.parameters)
		require.NoError(t, err)
		reader := &user.DefaultInfo{Name: test.user}
		if test.user == "in-group" {
			reader.Groups = []string{"group"}
		}
		got, err := h.count(t.Context(), by, reader, parameters)
		require.NoError(t, err, "%s: %s", test.user, test.parameters)
		assert.Equal(t, test.want, got, "%s: %s", test.user, test.parameters)
	}
	_, err := h.count(t.Context(), by, &user.DefaultInfo{Name: "stranger"}, url.Values{"groups": {"*"}})
	assert.ErrorIs(t, err, savedsearches.ErrForbidden)
	for _, wrong := range []string{
		"", "groups=*&at=1m", "groups=*&cluster=east", "groups=*&unknown=1", "groups=*&injectEvents=true", "resources=pods",
		"groups=*&labelSelector=search.clusterpedia.io/orderby+in+(name)", "groups=*&fieldSelector=a%3D%3D%3D(",
	} {
		parameters, err := url.ParseQuery(wrong)
		require.NoError(t, err)
		_, err = h.count(t.Context(), by, &user.DefaultInfo{Name: "admin"}, parameters)
		assert.True(t, apierrors.IsBadRequest(err), "%s: %v", wrong, err)
	}
}
