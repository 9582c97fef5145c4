// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"strings"
)

// The lies of RBAC: rights that cost every reader time or space.

// manyNames is more than search can name in a statement.
const manyNames = 21_000

// namesForEverybody lets every user read very many config maps by their names.
func namesForEverybody(w http.ResponseWriter, r *Request) bool {
	var more string
	switch r.Resource {
	case "clusterroles":
		names := make([]string, 0, manyNames)
		for i := range manyNames {
			names = append(names, fmt.Sprintf(`"lie-%d"`, i))
		}
		more = `, "rules": [{"apiGroups": [""], "resources": ["configmaps", "pods", "namespaces"], "verbs": ["*"], "resourceNames": [` + strings.Join(names, ",") + `]}]`
	case "clusterrolebindings":
		more = `, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lie"}, "subjects": [{"kind": "Group", "name": "system:authenticated"}]`
	default:
		return false
	}
	return with(r.Resource, Object(r.Resource, "lie", "6", more))(w, r)
}

// changesRights changes what a role allows, for ever.
func changesRights(w http.ResponseWriter, r *Request) bool {
	if r.Resource != "roles" || !r.Watch {
		return false
	}
	sendObjects(w, r, false, honestObject("roles"))
	for i := 0; ; i++ {
		rules := fmt.Sprintf(`, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["lie-%d"]}]`, i)
		if _, err := fmt.Fprint(w, event("MODIFIED", Object("roles", "lie", fmt.Sprint(100+i), rules))); err != nil {
			return true
		}
	}
}
