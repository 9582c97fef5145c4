// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// etcdBehindProxy returns whether an EgressSelectorConfiguration names a proxy to etcd. The file may be "".
func etcdBehindProxy(file string) (bool, error) {
	config, err := egressselector.ReadEgressSelectorConfiguration(file)
	if err != nil {
		return false, fmt.Errorf("--egress-selector-config-file: %w", err)
	}
	return config != nil && slices.ContainsFunc(config.EgressSelections, func(s apiserver.EgressSelection) bool {
		return s.Name == egressselector.Etcd.String() && s.Connection.ProxyProtocol != apiserver.ProtocolDirect
	}), nil
}
