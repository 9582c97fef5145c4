// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

const mayCreate = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME-jane}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME-jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME-jane}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`

const mayBlock = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: NAME-jane, namespace: NAME}
rules:
- {apiGroups: [NAME.example.com], resources: [widgets/finalizers], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: NAME-jane, namespace: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: NAME-jane}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
`

func TestOwnersThatAreCustomResources(t *testing.T) {
	t.Parallel()
	owned := func(kind string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {ownerReferences: [
			{apiVersion: NAME.example.com/v1, kind: ` + kind + `, name: owner, uid: "1", blockOwnerDeletion: true}]}}`
	}
	compare(t, func(t *testing.T, cluster *framework.Cluster) []string {
		s := newScene(t, cluster, "owners")
		s.create(t, widgets)
		s.create(t, mayCreate)
		jane, err := s.UserConfig("jane")
		require.NoError(t, err)
		seen := []string{
			s.refused(t, jane, "cannot find RESTMapping", owned("Gadget")),
			s.refused(t, jane, "can't set finalizers on", owned("Widget")),
		}
		s.create(t, mayBlock)
		s.created(t, jane, owned("Widget"), nil)
		return seen
	})
}
