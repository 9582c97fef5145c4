// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdversion

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// oldest is of the oldest minor version that Kubernetes supports.
var oldest = firstFixed[0]

// ErrTooOld is in errors of CheckSupported.
var ErrTooOld = errors.New("too old for this Kubernetes")

// CheckSupported returns an error if Kubernetes does not support the minor version of etcd. Text that is no version passes: other servers
// than etcd may report none.
func CheckSupported(text string) error {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() > oldest.Major() || v.Major() == oldest.Major() && v.Minor() >= oldest.Minor() {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("etcd %s is %w: upgrade it to %s or later, one minor version at a time", v, ErrTooOld, oldest)
}
