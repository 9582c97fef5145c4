// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package accesstest

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// rangeStreams try RangeStream, which etcd has since 3.7.
func rangeStreams(kv pb.KVClient, name string, request *pb.RangeRequest) []attempt {
	return []attempt{{"KV.RangeStream", name, func(ctx context.Context) error {
		stream, err := kv.RangeStream(ctx, request)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}}}
}
