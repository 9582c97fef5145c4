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

// UsedRightsVariable is an environment variable that names a directory. For each right that another service uses, a service creates a file
// there. `make test` sets the variable, and then looks for unused rights.
const UsedRightsVariable = "TRIPOD_RIGHTS_USED_DIR"

// Right is the part of a grant that concerns a single resource or path.
type Right struct {
	service string
	rule    rbacv1.PolicyRule
}

// Single returns all rights of a service one by one. service is a user name.
func (r Rights) Single(service string) []Right {
	var single []Right
	for _, grant := range r.Of(service) {
		for _, resource := range grant.Rule.Resources {
			rule := grant.Rule
			rule.Resources = []string{resource}
			single = append(single, Right{service, rule})
		}
		for _, path := range grant.Rule.NonResourceURLs {
			rule := grant.Rule
			rule.NonResourceURLs = []string{path}
			single = append(single, Right{service, rule})
		}
	}
	return single
}

// String returns the right in a form such as "aggregator: list, watch roles.rbac.authorization.k8s.io".
func (r Right) String() string {
	what := strings.Join(r.rule.NonResourceURLs, "")
	if what == "" {
		what = strings.TrimSuffix(r.rule.Resources[0]+"."+r.rule.APIGroups[0], ".")
	}
	return fmt.Sprintf("%s: %s %s", strings.TrimPrefix(r.service, userPrefix), strings.Join(r.rule.Verbs, ", "), what)
}

// File returns the name of the file that records the use of the right.
func (r Right) File() string { return url.PathEscape(r.String()) }

// usedRights records in a directory which rights services use. A nil usedRights records nothing.
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

// note records the rights that allowed a request. Additional API services have them in common.
func (u *usedRights) note(rights Rights, request authorizer.Attributes) {
	if u == nil {
		return
	}
	for _, right := range rights.Single(rights.grantee(request.GetUser().GetName())) {
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
