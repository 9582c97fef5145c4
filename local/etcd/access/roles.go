// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access gives each service a user in etcd, which may read and write the keys of that service and no others.
//
// etcd takes the common name of a client certificate as the user, if its --client-cert-auth is on. So users have no passwords:
//
//	tripod-core        the built-in resources, and what kube-apiserver stores besides them
//	tripod-extensions  all that is neither built-in nor the aggregator's, because nobody knows the groups of custom resources before
//	tripod-aggregator  APIServices
//	root               all: snapshots, tripod migrate split-etcd, and the roles themselves
//
// etcd checks keys only. Each user may also compact the history and make leases.
package access

import (
	"fmt"
	"path"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Users, which are the common names of client certificates. Each service has a role of the same name.
const (
	Root       = "root"
	Core       = "tripod-core"
	Extensions = "tripod-extensions"
	Aggregator = "tripod-aggregator"
)

// aggregatorGroup is the group of APIServices.
const aggregatorGroup = "apiregistration.k8s.io"

// compactRevision is the key by which API servers agree who compacts etcd. It has no prefix.
const compactRevision = "compact_rev_key"

// Range is a range of keys, from Key up to but without End. Without End it is one key.
type Range struct {
	Key, End string
	// ReadOnly forbids writes.
	ReadOnly bool
}

// Role is what a service may do.
type Role struct {
	Name   string
	Ranges []Range
}

// Roles returns the roles of all services, for their --etcd-prefix.
func Roles(prefix string) []Role {
	prefix = path.Join("/", prefix) + "/" // as API servers do
	health := Range{Key: prefix + "health", ReadOnly: true}
	compaction := Range{Key: compactRevision}
	core := []Range{health, compaction}
	taken := []Range{below(prefix + aggregatorGroup)}
	for _, name := range builtIn {
		taken = append(taken, below(prefix+name))
		// API servers read the directory itself to learn the revision of etcd. Nothing is there.
		core = append(core, below(prefix+name), Range{Key: prefix + name, ReadOnly: true})
	}
	aggregator := taken[0]
	others := without(below(strings.TrimSuffix(prefix, "/")), taken)
	return []Role{
		{Core, core},
		{Extensions, append(others, compaction)}, // the key of health is among them
		{Aggregator, []Range{aggregator, health}},
	}
}

// below returns the range of all keys in a directory.
func below(directory string) Range {
	return Range{Key: directory + "/", End: clientv3.GetPrefixRangeEnd(directory + "/")}
}

// without returns what is left of a range without some ranges inside of it.
func without(whole Range, taken []Range) []Range {
	slices.SortFunc(taken, func(a, b Range) int { return strings.Compare(a.Key, b.Key) })
	var left []Range
	for _, t := range taken {
		left = append(left, Range{Key: whole.Key, End: t.Key})
		whole.Key = t.End
	}
	return append(left, whole)
}

// Commands returns the commands of etcdctl that do what Apply does in an etcd that has neither users nor roles.
func Commands(prefix string) string {
	var b strings.Builder
	user := func(name, role string) {
		fmt.Fprintf(&b, "etcdctl user add %s --no-password\netcdctl user grant-role %s %s\n", name, name, role)
	}
	for _, role := range Roles(prefix) {
		fmt.Fprintf(&b, "etcdctl role add %s\n", role.Name)
		for _, r := range role.Ranges {
			kind := "readwrite"
			if r.ReadOnly {
				kind = "read"
			}
			fmt.Fprintf(&b, "etcdctl role grant-permission %s %s %s\n", role.Name, kind, strings.TrimSpace(r.Key+" "+r.End))
		}
		user(role.Name, role.Name)
	}
	fmt.Fprintf(&b, "etcdctl role add %s\n", Root)
	user(Root, Root)
	b.WriteString("etcdctl auth enable\n")
	return b.String()
}
