// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// definitions are the CustomResourceDefinitions themselves.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// pageSize is how many objects are read at a time. They may be as large as 1.5 MB each.
const pageSize = 200

// resource says where a resource is stored.
type resource struct {
	// name is as in widgets.example.com, prefix as in /registry/example.com/widgets/.
	name, prefix string
}

// resource returns where API servers store a resource. A CustomResourceDefinition has the name of its resource, so this needs no
// decoding or decryption.
func (s *split) resource(name string) resource {
	plural, group, _ := strings.Cut(name, ".")
	return resource{name: name, prefix: s.Prefix + "/" + group + "/" + plural + "/"}
}

// resources returns the resources in an etcd that belong to extensions: CustomResourceDefinitions, and what each of them defines.
func (s *split) resources(ctx context.Context, client *clientv3.Client) ([]resource, error) {
	all := []resource{s.resource(definitions)}
	prefix := all[0].prefix
	answer, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err)
	}
	for _, entry := range answer.Kvs {
		all = append(all, s.resource(strings.TrimPrefix(string(entry.Key), prefix)))
	}
	return all, nil
}

// pages calls visit with the objects of a resource, in the order of their keys.
func pages(ctx context.Context, client *clientv3.Client, r resource, visit func([]*mvccpb.KeyValue) error) error {
	from, end := r.prefix, clientv3.GetPrefixRangeEnd(r.prefix)
	for {
		answer, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", r.name, err)
		}
		if err := visit(answer.Kvs); err != nil {
			return err
		}
		if !answer.More {
			return nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
	}
}

// copy makes a resource in the target equal to that in the source.
func (s *split) copy(ctx context.Context, r resource) error {
	var done atomic.Int64
	stop := s.reportProgress(func() string { return fmt.Sprintf("copying %s: %d objects so far", r.name, done.Load()) })
	defer stop()

	unwanted := map[string]struct{}{}
	if err := pages(ctx, s.target, r, func(page []*mvccpb.KeyValue) error {
		for _, entry := range page {
			unwanted[string(entry.Key)] = struct{}{}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := pages(ctx, s.source, r, func(page []*mvccpb.KeyValue) error {
		writing, ctx := errgroup.WithContext(ctx)
		writing.SetLimit(writers)
		for _, entry := range page {
			_, exists := unwanted[string(entry.Key)]
			delete(unwanted, string(entry.Key))
			if exists && s.has(entry) {
				done.Add(1)
				continue
			}
			writing.Go(func() error {
				defer done.Add(1)
				return s.put(ctx, entry, exists)
			})
		}
		return writing.Wait()
	}); err != nil {
		return err
	}
	for key := range unwanted {
		if err := s.change(ctx, s.target, clientv3.OpDelete(key)); err != nil {
			return fmt.Errorf("cannot delete from the target: %w", err)
		}
		s.report.Removed++
	}
	s.Progress(fmt.Sprintf("copied %s: %d objects", r.name, done.Load()))
	return nil
}

// put writes an object, unless the target has the same. If clients use the source, it writes that, too: what an earlier move has left in
// the target has a resourceVersion of then, which clients know as an older state.
func (s *split) put(ctx context.Context, entry *mvccpb.KeyValue, exists bool) error {
	key := string(entry.Key)
	if exists && !s.inUse {
		answer, err := s.target.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("cannot read from the target: %w", err)
		}
		if len(answer.Kvs) == 1 && bytes.Equal(answer.Kvs[0].Value, entry.Value) {
			atomic.AddInt64(&s.report.Unchanged, 1)
			return nil
		}
	}
	if err := s.change(ctx, s.target, clientv3.OpPut(key, string(entry.Value))); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	atomic.AddInt64(&s.report.Written, 1)
	return nil
}

// sum returns the number and checksum of a resource's objects, and their extent.
func sum(ctx context.Context, client *clientv3.Client, r resource) (Resource, extent, error) {
	hash, found := sha256.New(), extent{}
	result := Resource{Name: r.name}
	err := pages(ctx, client, r, func(page []*mvccpb.KeyValue) error {
		for _, entry := range page {
			for _, part := range [][]byte{entry.Key, entry.Value} {
				hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
				hash.Write(part)
			}
			result.Objects++
			found.bytes += int64(len(entry.Key) + len(entry.Value))
			found.latest = max(found.latest, entry.ModRevision)
		}
		return nil
	})
	result.Checksum = hex.EncodeToString(hash.Sum(nil))
	return result, found, err
}
