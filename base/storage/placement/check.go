// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// definitions is the directory of CustomResourceDefinitions, below the prefix. The name of each is PLURAL.GROUP.
const definitions = "/apiextensions.k8s.io/customresourcedefinitions/"

// readsAtOnce is how many records are read in one transaction, of which etcd limits the size.
const readsAtOnce = 100

// Check returns an error if a group that the process serves is in an etcd that the process does not have. It also has the group's own etcds
// know which service uses them. It comes before the first storage. named are groups that the configuration gives to the process by name: it
// must reach their keys before the first definition of such a group is created.
//
// A server that is not etcd ([etcdversion.IsEtcd]) knows no transactions but those of kube-apiserver. It can have neither fences nor
// records, so no group moves to or from it, and its groups have no etcds of their own.
func (g *Groups) Check(ctx context.Context, serves func(group string) bool, named ...string) error {
	shared, err := g.Clients.Client(&g.Shared)
	if err != nil {
		return err
	}
	directory := "/" + strings.Trim(g.Shared.Prefix, "/") + definitions
	answer, err := shared.Get(ctx, directory, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("%s cannot read CustomResourceDefinitions%s: %w", g.Name, remedy(err), err)
	}
	g.fixed = !etcdversion.IsEtcd(answer.Header)
	var others []string
	for _, kv := range answer.Kvs {
		_, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), directory), ".")
		if !serves(name) || slices.Contains(others, name) {
			continue
		}
		switch group := g.newGroup(name); {
		case group.own != nil && g.fixed:
			return fmt.Errorf("%s cannot serve the API group %s: %w", g.Name, name, group.notMovable())
		case group.own != nil:
			go group.prepare(ctx)
		default:
			others = append(others, name)
		}
	}
	if g.fixed {
		return nil
	}
	for _, name := range named {
		if _, hasOwn := g.Own(name); !hasOwn && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	for names := range slices.Chunk(others, readsAtOnce) {
		if err := g.refuseElsewhere(ctx, shared, names); err != nil {
			return err
		}
	}
	return nil
}

// remedy says what to do about an error of etcd, if it is about rights.
func remedy(err error) string {
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return ""
	}
	return ": the user of its --etcd-certfile has no rights to them (tripod etcd access)"
}

// prepare does what the first request for a group would wait for.
func (g *group) prepare(ctx context.Context) {
	defer g.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findTimeout)
	defer cancel()
	g.find(ctx) //nolint:errcheck // the first request tries again
}

// notMovable is the error for a group with an etcd of its own whose shared etcd is none.
func (g *group) notMovable() error {
	return fmt.Errorf("it cannot have an etcd of its own, because %v is not etcd, but a server such as kine: "+
		"remove --group-etcd-servers for it", g.Shared.Transport.ServerList)
}

// refuseElsewhere returns an error if a group is in an etcd of its own.
func (g *Groups) refuseElsewhere(ctx context.Context, shared clientv3.KV, names []string) error {
	var reads []clientv3.Op
	for _, name := range names {
		reads = append(reads, clientv3.OpGet(KeysOf(g.Shared.Prefix, name).Record))
	}
	answer, err := shared.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return fmt.Errorf("%s cannot read the keys of its API groups, such as %s%s: %w", g.Name, names[0], remedy(err), err)
	}
	for i, name := range names {
		for _, kv := range answer.Responses[i].GetResponseRange().GetKvs() {
			record := Record{}
			if err := json.Unmarshal(kv.Value, &record); err != nil {
				return fmt.Errorf("cannot read %s in etcd: %w", kv.Key, err)
			}
			if (State{Record: &record}).IsOwn() {
				return fmt.Errorf("%s cannot serve the API group %s: its objects are in an etcd of their own; %s", g.Name, name, howToMove(name))
			}
		}
	}
	return nil
}
