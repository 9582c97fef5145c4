// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groupcheck checks a configuration of partitions before replicas have it: each API group of custom resources must have the etcd
// with its objects. It changes nothing.
package groupcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// definitions is the directory of CustomResourceDefinitions, below the prefix. The name of each is PLURAL.GROUP.
const definitions = "/apiextensions.k8s.io/customresourcedefinitions/"

// answerTimeout is how long an etcd of groups may take to answer.
const answerTimeout = 10 * time.Second

// Etcd is the etcd that the groups of a pattern are to have of their own.
type Etcd struct {
	Pattern                   string
	Servers                   []string
	CAFile, CertFile, KeyFile string
	// Stopped says that it does not run, and is not asked.
	Stopped bool
}

// Parse returns the etcds of flags of the form PATTERN=URL[,URL...], with files of the form PATTERN=FILE. The
// etcds of the stopped patterns do not run.
func Parse(servers, caFiles, certFiles, keyFiles, stopped []string) ([]Etcd, error) {
	var etcds []Etcd
	for _, given := range servers {
		pattern, urls, _ := strings.Cut(given, "=")
		if urls == "" {
			return nil, fmt.Errorf("%q is not of the form GROUP=URL[,URL...]", given)
		}
		if err := partitions.ValidateGroups([]string{pattern}); err != nil {
			return nil, err
		}
		etcds = append(etcds, Etcd{Pattern: pattern, Servers: strings.Split(urls, ","), Stopped: slices.Contains(stopped, pattern)})
	}
	for _, files := range []struct {
		given []string
		to    func(*Etcd) *string
	}{
		{caFiles, func(e *Etcd) *string { return &e.CAFile }},
		{certFiles, func(e *Etcd) *string { return &e.CertFile }},
		{keyFiles, func(e *Etcd) *string { return &e.KeyFile }},
	} {
		for _, given := range files.given {
			pattern, file, _ := strings.Cut(given, "=")
			i := slices.IndexFunc(etcds, func(e Etcd) bool { return e.Pattern == pattern })
			if i < 0 {
				return nil, fmt.Errorf("%q is a file for %s, which has no etcd of its own", given, pattern)
			}
			*files.to(&etcds[i]) = file
		}
	}
	return etcds, nil
}

// Check returns an error if a group has its objects in an etcd of its own, and this is none of the planned ones. shared is a client of the
// etcd with the CustomResourceDefinitions.
func Check(ctx context.Context, shared *clientv3.Client, prefix string, planned []Etcd) error {
	groups, err := groupsOf(ctx, shared, prefix)
	if err != nil {
		return err
	}
	var without []string
	for _, group := range groups {
		keys := placement.KeysOf(prefix, group)
		state, err := keys.Read(ctx, shared)
		if err != nil {
			return fmt.Errorf("cannot read where the API group %s is: %w", group, err)
		}
		if !state.IsOwn() {
			continue // a group in the shared etcd stays there until it is moved
		}
		i := slices.IndexFunc(planned, func(e Etcd) bool { return addresses.MatchGroup(e.Pattern, group) })
		if i < 0 {
			without = append(without, group)
		} else if planned[i].Stopped {
			continue
		} else if err := planned[i].has(ctx, keys, group, state.Record.Move); err != nil {
			return err
		}
	}
	if len(without) > 0 {
		return fmt.Errorf("the objects of %s are in an etcd that no partition would have: keep it, or first move them: %s",
			strings.Join(without, ", "), moveBack(without...))
	}
	return nil
}

func moveBack(groups ...string) string {
	return "tripod migrate groups --to extensions " + strings.Join(groups, " ")
}

// groupsOf returns the API groups that have definitions, in their order.
func groupsOf(ctx context.Context, etcd clientv3.KV, prefix string) ([]string, error) {
	directory := "/" + strings.Trim(prefix, "/") + definitions
	answer, err := etcd.Get(ctx, directory, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("cannot read CustomResourceDefinitions: %w", err)
	}
	var groups []string
	for _, kv := range answer.Kvs {
		_, group, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), directory), ".")
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// has returns an error if the etcd does not have the objects that a move has brought to an etcd of the group.
func (e *Etcd) has(ctx context.Context, keys placement.Keys, group, move string) error {
	servers := strings.Join(e.Servers, ",")
	client, err := access.Connect(e.Servers, e.CAFile, e.CertFile, e.KeyFile)
	if err != nil {
		return fmt.Errorf("etcd of the API group %s: %w", group, err)
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	state, err := keys.Read(ctx, client)
	if err != nil {
		return fmt.Errorf("the planned etcd %s for the API group %s does not answer: %w", servers, group, err)
	}
	if state.Record == nil || state.Record.Move != move {
		return fmt.Errorf("the planned etcd %s does not have the objects of %s: keep the etcd of before, or first move them: %s",
			servers, group, moveBack(group))
	}
	return nil
}
