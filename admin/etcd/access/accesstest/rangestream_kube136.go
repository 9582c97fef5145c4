// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build kube1.36

package accesstest

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

func rangeStreams(pb.KVClient, string, *pb.RangeRequest) []attempt { return nil }
