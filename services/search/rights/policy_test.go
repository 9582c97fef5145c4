// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestWhoAReaderIsInACluster(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", UID: "7", Groups: []string{"dev", "system:masters", user.AllAuthenticated}, Extra: map[string][]string{"mail": {"a@example.com"}}}
	robot := &user.DefaultInfo{Name: "system:serviceaccount:ci:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci", user.AllAuthenticated}}
	anonymous := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	for name, test := range map[string]struct {
		policy Policy
		reader user.Info
		want   user.Info
		fails  bool
	}{
		"the hub":                      {policy: Policy{Home: true}, reader: robot, want: robot},
		"the same name":                {reader: alice, want: &user.DefaultInfo{Name: "alice", Groups: []string{"dev", user.AllAuthenticated}}},
		"a service account of the hub": {reader: robot},
		"nobody in particular":         {reader: anonymous},
		"a node":                       {reader: &user.DefaultInfo{Name: "system:node:n", Groups: []string{"system:nodes"}}},
		"another name":                 {policy: Policy{Username: "'corp:' + user.username"}, reader: alice, want: &user.DefaultInfo{Name: "corp:alice", Groups: []string{"dev", user.AllAuthenticated}}},
		"a service account with a name on purpose": {policy: Policy{Username: "'hub:' + user.username"}, reader: robot, want: &user.DefaultInfo{Name: "hub:system:serviceaccount:ci:robot", Groups: []string{user.AllAuthenticated}}},
		"a name of Kubernetes on purpose":          {policy: Policy{Username: "'system:kube-controller-manager'"}, reader: alice},
		"no name":                                  {policy: Policy{Username: "''"}, reader: alice},
		"other groups":                             {policy: Policy{Groups: "user.groups.map(g, 'corp:' + g) + ['readers', 'system:masters']"}, reader: alice, want: &user.DefaultInfo{Name: "alice", Groups: []string{"corp:dev", "corp:system:masters", "corp:system:authenticated", "readers", user.AllAuthenticated}}},
		"a name from the rest":                     {policy: Policy{Username: "user.extra['mail'][0] + user.uid"}, reader: alice, want: &user.DefaultInfo{Name: "a@example.com7", Groups: []string{"dev", user.AllAuthenticated}}},
		"an expression that fails":                 {policy: Policy{Username: "user.extra['mail'][0]"}, reader: robot, fails: true},
		"an expression that fails for groups":      {policy: Policy{Groups: "[user.groups[9]]"}, reader: alice, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := test.policy.Encode()
			require.NoError(t, err)
			who, err := decodePolicy(text)
			require.NoError(t, err)
			got, err := who.of(t.Context(), test.reader)
			assert.Equal(t, test.fails, err != nil, "%v", err)
			if test.want == nil {
				assert.Nil(t, got)
			} else {
				assert.Equal(t, test.want, got)
			}
		})
	}
	assert.Equal(t, []string{"dev", "system:masters", user.AllAuthenticated}, alice.Groups, "readers stay as they are")
}

func TestExpressionsAreChecked(t *testing.T) {
	for want, p := range map[string]Policy{
		"memberRBAC.username: compilation failed":                              {Username: "user.name"},
		"memberRBAC.username: it must be of the type string, not list(string)": {Username: "user.groups"},
		"memberRBAC.groups: it must be of the type list(string), not string":   {Groups: "user.username"},
		"memberRBAC.groups: compilation failed":                                {Groups: "["},
	} {
		_, err := p.Encode()
		assert.ErrorContains(t, err, want)
	}
}
