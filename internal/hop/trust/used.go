// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// UsedRightsVariable is the environment variable that names a directory: a service leaves a file there for each right that another service
// uses. `make test` sets it, and then looks for rights that nothing used.
const UsedRightsVariable = "TRIPOD_RIGHTS_USED_DIR"

// Right is the part of a grant that is about a single resource or path.
type Right struct {
	service string
	rule    rbacv1.PolicyRule
}

// Rights returns all rights of a service, given by its user name.
func Rights(service string) []Right {
	var rights []Right
	for _, grant := range grants[service] {
		for _, resource := range grant.Rule.Resources {
			rights = append(rights, Right{service, resources(grant.Rule.Verbs, grant.Rule.APIGroups[0], resource)})
		}
		for _, path := range grant.Rule.NonResourceURLs {
			rights = append(rights, Right{service, paths(grant.Rule.Verbs, path)})
		}
	}
	return rights
}

// String returns the right as in "aggregator: list, watch roles.rbac.authorization.k8s.io".
func (r Right) String() string {
	what := strings.Join(r.rule.NonResourceURLs, "")
	if what == "" {
		what = strings.TrimSuffix(r.rule.Resources[0]+"."+r.rule.APIGroups[0], ".")
	}
	return fmt.Sprintf("%s: %s %s", strings.TrimPrefix(r.service, "system:tripod:"), strings.Join(r.rule.Verbs, ", "), what)
}

// File returns the name of the file that says that the right was used.
func (r Right) File() string { return url.PathEscape(r.String()) }

// usedRights notes which rights services use, in a directory. A nil one notes nothing.
type usedRights struct {
	directory string
	noted     sync.Map
}

func newUsedRights() *usedRights {
	if directory := os.Getenv(UsedRightsVariable); directory != "" {
		return &usedRights{directory: directory}
	}
	return nil
}

// note notes the rights by which a request was allowed.
func (u *usedRights) note(request authorizer.Attributes) {
	if u == nil {
		return
	}
	for _, right := range Rights(request.GetUser().GetName()) {
		if !allow([]rbacv1.PolicyRule{right.rule}, request) {
			continue
		}
		if _, known := u.noted.LoadOrStore(right.File(), true); known {
			continue
		}
		if err := os.WriteFile(filepath.Join(u.directory, right.File()), nil, 0o644); err != nil {
			klog.ErrorS(err, "Cannot note that a right was used", "right", right)
		}
	}
}
