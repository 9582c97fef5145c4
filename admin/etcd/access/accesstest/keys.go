// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package accesstest

import (
	"context"
	"errors"
	"maps"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// depth is how deep transactions are nested.
const depth = 3

// beyond is the end of a range of all keys from its key on.
var beyond = []byte{0}

func directory(t Target) (key, end []byte) {
	return []byte(t.Directory + "/"), []byte(clientv3.GetPrefixRangeEnd(t.Directory + "/"))
}

// operations are requests for keys of others. Each goes alone, and into transactions.
func operations(t Target) map[string]*pb.RequestOp {
	own, forbidden := []byte(t.Own), []byte(t.Forbidden)
	key, end := directory(t)
	ranges := map[string]*pb.RangeRequest{
		"the key": {Key: forbidden}, "its directory": {Key: key, RangeEnd: end}, "all keys from an own one": {Key: own, RangeEnd: beyond},
		"all keys": {Key: beyond, RangeEnd: beyond}, "the number of keys": {Key: key, RangeEnd: end, CountOnly: true},
		"the key, serializable": {Key: forbidden, Serializable: true}, "names of keys": {Key: key, RangeEnd: end, KeysOnly: true},
		"the key in the past": {Key: forbidden, Revision: 1},
	}
	puts := map[string]*pb.PutRequest{
		"the key": {Key: forbidden}, "the key, with the value before": {Key: forbidden, PrevKv: true},
		"the key, with its value": {Key: forbidden, IgnoreValue: true}, "the key, with its lease": {Key: forbidden, IgnoreLease: true},
		"an own key with the lease of another": {Key: own, Lease: int64(t.Lease)},
		"the key with its lease by number":     {Key: forbidden, Lease: int64(t.Lease), PrevKv: true},
	}
	deletes := map[string]*pb.DeleteRangeRequest{
		"the key": {Key: forbidden}, "the key, with the value before": {Key: forbidden, PrevKv: true},
		"its directory, with the values before": {Key: key, RangeEnd: end, PrevKv: true},
		"all keys from an own one":              {Key: own, RangeEnd: beyond, PrevKv: true},
	}
	all := map[string]*pb.RequestOp{}
	for name, request := range ranges {
		all["Range "+name] = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: request}}
	}
	for name, request := range puts {
		all["Put "+name] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: request}}
	}
	for name, request := range deletes {
		all["DeleteRange "+name] = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: request}}
	}
	return all
}

// guesses compare a key of others, which would reveal its value bit by bit.
func guesses(t Target) map[string]*pb.Compare {
	key, end := directory(t)
	guess := func(of, until []byte, target pb.Compare_CompareTarget, result pb.Compare_CompareResult) *pb.Compare {
		return &pb.Compare{Key: of, RangeEnd: until, Target: target, Result: result}
	}
	forbidden, own := []byte(t.Forbidden), []byte(t.Own)
	return map[string]*pb.Compare{
		"Compare the value":       guess(forbidden, nil, pb.Compare_VALUE, pb.Compare_GREATER),
		"Compare the version":     guess(forbidden, nil, pb.Compare_VERSION, pb.Compare_EQUAL),
		"Compare the lease":       guess(forbidden, nil, pb.Compare_LEASE, pb.Compare_EQUAL),
		"Compare the directory":   guess(key, end, pb.Compare_MOD, pb.Compare_GREATER),
		"Compare all from an own": guess(own, beyond, pb.Compare_CREATE, pb.Compare_GREATER),
	}
}

// branches put an operation into the branch of a transaction that runs, or into the other.
func branches(op *pb.RequestOp) map[string]*pb.TxnRequest {
	return map[string]*pb.TxnRequest{"success": {Success: []*pb.RequestOp{op}}, "failure": {Failure: []*pb.RequestOp{op}}}
}

func asOperation(txn *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}
}

// transactions has an operation or a comparison at each level of nested transactions, in both branches.
func transactions(t Target) map[string]*pb.TxnRequest {
	all := map[string]*pb.TxnRequest{}
	for name, op := range operations(t) {
		for branch, txn := range branches(op) {
			all[name+" in "+branch] = txn
		}
	}
	for name, guess := range guesses(t) {
		all[name] = &pb.TxnRequest{Compare: []*pb.Compare{guess}}
	}
	nested := all
	for level := 1; level < depth; level++ {
		outer := map[string]*pb.TxnRequest{}
		for name, txn := range nested {
			for branch, parent := range branches(asOperation(txn)) {
				outer[name+" in "+branch] = parent
			}
		}
		maps.Copy(all, outer)
		nested = outer
	}
	return all
}

// keyAttempts try the service KV.
func keyAttempts(conn *grpc.ClientConn, t Target) []attempt {
	kv := pb.NewKVClient(conn)
	var all []attempt
	for name, op := range operations(t) {
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			all = append(all, unary("KV.Range", name, kv.Range, op.RequestRange))
			all = append(all, rangeStreams(kv, name, op.RequestRange)...)
		case *pb.RequestOp_RequestPut:
			all = append(all, unary("KV.Put", name, kv.Put, op.RequestPut))
		case *pb.RequestOp_RequestDeleteRange:
			all = append(all, unary("KV.DeleteRange", name, kv.DeleteRange, op.RequestDeleteRange))
		}
	}
	for name, txn := range transactions(t) {
		all = append(all, unary("KV.Txn", name, kv.Txn, txn))
	}
	return append(all, unary("KV.Compact", "", kv.Compact, &pb.CompactionRequest{Revision: 1}))
}

// watchAttempts try the service Watch.
func watchAttempts(conn *grpc.ClientConn, t Target) []attempt {
	key, end := directory(t)
	var all []attempt
	for name, create := range map[string]*pb.WatchCreateRequest{
		"the key": {Key: []byte(t.Forbidden)}, "its directory": {Key: key, RangeEnd: end}, "all keys": {Key: beyond, RangeEnd: beyond},
		"all keys, from the empty one":         {RangeEnd: beyond},
		"all keys from an own one":             {Key: []byte(t.Own), RangeEnd: beyond},
		"keys beyond an own one":               {Key: []byte(t.Own), RangeEnd: []byte("\xff\xff")},
		"the past of all keys from an own one": {Key: []byte(t.Own), RangeEnd: beyond, StartRevision: 1, PrevKv: true, ProgressNotify: true},
		"the key, with values before":          {Key: []byte(t.Forbidden), PrevKv: true, Fragment: true},
	} {
		all = append(all, attempt{"Watch.Watch", name, func(ctx context.Context) error {
			stream, err := pb.NewWatchClient(conn).Watch(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
				return err
			}
			answer, err := stream.Recv()
			if err == nil && answer.Canceled {
				err = errors.New(answer.CancelReason)
			}
			return err
		}})
	}
	return all
}
