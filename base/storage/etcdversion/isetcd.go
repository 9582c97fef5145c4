// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdversion

import "go.etcd.io/etcd/api/v3/etcdserverpb"

// IsEtcd returns whether an answer is that of an etcd. Others only look like etcd to kube-apiserver, such as kine. Only etcd says which
// cluster, member and term its answers are of.
func IsEtcd(header *etcdserverpb.ResponseHeader) bool {
	return header.GetClusterId() != 0 || header.GetMemberId() != 0 || header.GetRaftTerm() != 0
}
