// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// EtcdBehindProxy returns whether an EgressSelectorConfiguration names a proxy to etcd. The file may be "". As for egress selectors, the
// case of a name does not count.
func EtcdBehindProxy(file string) (bool, error) {
	config, err := egressselector.ReadEgressSelectorConfiguration(file)
	if err != nil {
		return false, fmt.Errorf("--egress-selector-config-file: %w", err)
	}
	return config != nil && slices.ContainsFunc(config.EgressSelections, func(s apiserver.EgressSelection) bool {
		return strings.EqualFold(s.Name, egressselector.Etcd.String()) && s.Connection.ProxyProtocol != apiserver.ProtocolDirect
	}), nil
}
