// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// awayError says that an API service has the objects of a group.
type awayError struct{ group, service string }

func (e *awayError) Error() string {
	return fmt.Sprintf("its objects are in the API service %s, where requests should go (tripod migrate crd %s --back brings them back)",
		e.service, e.group)
}

// unavailableError is the answer to a request, with its reason.
type unavailableError struct {
	*apierrors.StatusError
	reason error
}

// Unwrap returns the reason.
func (e *unavailableError) Unwrap() error { return e.reason }

// isFinalizing reports whether the controller that removes a CustomResourceDefinition asks, because the objects of the group are away. The
// controller waits until it finds no objects. Those of an API service are none of the definition any more, and stay. All others
// have a request.
func isFinalizing(ctx context.Context, err error) bool {
	var away *awayError
	if !errors.As(err, &away) {
		return false
	}
	_, isRequest := request.RequestInfoFrom(ctx)
	return !isRequest
}

// Returning returns a way to make storages for the move that copies the objects of a group back from an API service. etcd refuses their
// writes, with [migration.ErrGate], once the record of the group is another one than now.
func (g *Groups) Returning(ctx context.Context, name, move string) (etcdclient.NewRawStorage, error) {
	keys := KeysOf(g.Shared.Prefix, name)
	client, err := g.Clients.Client(&g.Shared)
	if err != nil {
		return nil, err
	}
	at, err := keys.Read(ctx, client)
	if err != nil {
		return nil, err
	}
	if move == "" || !at.IsAway() || at.Record.Back != move {
		return nil, migration.ErrGate
	}
	commit := func(ctx context.Context, t *etcdclient.Transaction) (*clientv3.TxnResponse, error) {
		answer, record, err := t.CommitIf(ctx, keys.RecordUnchanged(at.Revision), clientv3.OpGet(keys.Record, clientv3.WithKeysOnly()))
		if err != nil || answer.Succeeded {
			return answer, err
		}
		if kvs := record.GetKvs(); len(kvs) == 0 || kvs[0].ModRevision > at.Revision {
			return nil, migration.ErrGate
		}
		return answer, nil
	}
	return g.Clients.Wrapped(func(kv clientv3.KV) clientv3.KV { return etcdclient.Fenced{KV: kv, Commit: commit} }), nil
}
