// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// recordKey is where the target keeps what was done. It is outside of what API servers see.
const recordKey = "/tripod/split-etcd"

// markKey is written to see whether source and target are the same.
const markKey = recordKey + "/mark"

// record is what the target knows of earlier runs.
type record struct {
	// Source is the etcd cluster that is copied from.
	Source uint64 `json:"source"`
	// Done says that everything was copied, namely Resources as they were at Revision. Deleting says that the source may have lost some of
	// it since.
	Done      bool       `json:"done"`
	Revision  int64      `json:"revision,omitempty"`
	Deleting  bool       `json:"deleting,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
}

// begin notes in the target that it is being copied to. It returns the record of an earlier run that has finished, or nil.
func (s *split) begin(ctx context.Context) (*record, error) {
	if err := s.checkDistinct(ctx); err != nil {
		return nil, err
	}
	answer, err := s.target.Get(ctx, recordKey)
	if err != nil {
		return nil, fmt.Errorf("cannot read from the target: %w", err)
	}
	if len(answer.Kvs) > 0 {
		earlier, err := parseRecord(answer.Kvs[0].Value)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s in the target: %w", recordKey, err)
		}
		switch {
		case earlier.Source != s.Source.id:
			return nil, fmt.Errorf("the target holds what was copied from another etcd than --%s", s.Source.Flag)
		case !earlier.Done:
			s.Progress("going on with what an earlier run has begun")
			return nil, nil // no finished run
		}
		return earlier, nil
	}
	existing, err := s.target.Get(ctx, s.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("cannot read from the target: %w", err)
	}
	if existing.Count > 0 {
		return nil, fmt.Errorf("the target is in use: it has %d keys below %s that were not copied by this command", existing.Count, s.Prefix)
	}
	return nil, s.write(ctx, &record{Source: s.Source.id})
}

// parseRecord reads a record. Its writer may write to the target, and must not decide what is deleted from the source besides custom
// resources.
func parseRecord(data []byte) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	for _, resource := range r.Resources {
		if resource.Name != definitions && !custom(resource.Name) {
			return nil, fmt.Errorf("%q is no custom resource", resource.Name)
		}
	}
	return r, nil
}

// custom reports whether a CustomResourceDefinition may have this name. Its group has a dot, unlike the directories of built-in resources
// in etcd.
func custom(name string) bool {
	plural, group, _ := strings.Cut(name, ".")
	return len(validation.IsDNS1035Label(plural)) == 0 && len(validation.IsDNS1123Subdomain(group)) == 0 && strings.Contains(group, ".") &&
		group != apiextensions.GroupName && group != apiregistration.GroupName
}

// checkDistinct returns an error when source and target are the same etcd. The ids of clusters do not decide that: those that are started
// alike have the same.
func (s *split) checkDistinct(ctx context.Context) error {
	mark := rand.Text()
	if _, err := s.target.Put(ctx, markKey, mark); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	seen, err := s.source.Get(ctx, markKey)
	if err != nil {
		return fmt.Errorf("cannot read from the source: %w", err)
	}
	if _, err := s.target.Delete(ctx, markKey); err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	if len(seen.Kvs) == 1 && string(seen.Kvs[0].Value) == mark {
		return fmt.Errorf("--%s and --%s are the same etcd", s.Source.Flag, s.Target.Flag)
	}
	return nil
}

// finish has the target forget how everything was copied, and notes that it was.
func (s *split) finish(ctx context.Context, done *record) error {
	now, err := revision(ctx, s.target)
	if err != nil {
		return err
	}
	if err := etcdclient.Compact(ctx, s.target, now); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	return s.write(ctx, done)
}

func (s *split) write(ctx context.Context, r *record) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = s.target.Put(ctx, recordKey, string(data))
	}
	if err != nil {
		return fmt.Errorf("cannot write to the target: %w", err)
	}
	return nil
}
