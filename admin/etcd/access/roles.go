// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access gives each service a user in etcd that may read and write only the keys of that service.
//
// With --client-cert-auth, etcd takes the common name of a client certificate as the user. So users need no passwords:
//
//	tripod-core        built-in resources, and the other keys that kube-apiserver writes
//	tripod-extensions  all other keys except those of the aggregator, because the groups of custom resources are not known beforehand
//	tripod-aggregator  APIServices
//	tripod-NAME        the directories that an additional API service is given
//	root               all keys: for snapshots, tripod migrate split-etcd, and this package
//
// Each user may also create leases. Only root may compact the history, so etcd has to do that itself (--auto-compaction-mode).
//
// To check the keys of a request costs etcd little. But with a put under a lease it checks all keys of that lease, so services attach few
// keys to each.
package access

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// Users are common names of client certificates. The role of a service has the same name as its user.
const (
	Root       = "root"
	Core       = "tripod-core"
	Extensions = "tripod-extensions"
	Aggregator = "tripod-aggregator"
)

const (
	// aggregatorGroup is the group of APIServices.
	aggregatorGroup           = "apiregistration.k8s.io"
	apiExtensionsGroup        = "apiextensions.k8s.io"
	customResourceDefinitions = apiExtensionsGroup + "/customresourcedefinitions"
)

// compactRevision is the key by which API servers agree which of them compacts etcd. It has no prefix.
const compactRevision = "compact_rev_key"

// Range is the keys from Key up to End, without End itself. If End is empty, it is a single key.
type Range struct {
	Key, End string
	// ReadOnly forbids writes.
	ReadOnly bool
}

// Service is an additional API service, and the directories in etcd that it may use, such as /registry/wardle.example.com.
type Service struct {
	Name        string
	Directories []string
}

// UserOf returns the user of an additional API service.
func UserOf(service string) string { return "tripod-" + service }

// ParseService reads NAME=DIRECTORY[,DIRECTORY...].
func ParseService(text string) (Service, error) {
	name, directories, _ := strings.Cut(text, "=")
	if err := addresses.ValidateName(name); err != nil {
		return Service{}, err
	}
	s := Service{Name: name}
	for directory := range strings.SplitSeq(directories, ",") {
		if !strings.HasPrefix(directory, "/") || path.Clean(directory) != directory || directory == "/" {
			return s, fmt.Errorf("%q is not of the form NAME=/DIRECTORY[,/DIRECTORY...]", text)
		}
		s.Directories = append(s.Directories, directory)
	}
	return s, nil
}

// Role is a role in etcd with the ranges that it may use.
type Role struct {
	Name   string
	Ranges []Range
}

// Roles returns the roles of all services. prefix is their --etcd-prefix.
func Roles(prefix string, table partitions.Table, services ...Service) []Role {
	prefix = path.Join("/", prefix) + "/" // as API servers do
	health := Range{Key: prefix + "health", ReadOnly: true}
	compaction := Range{Key: compactRevision}
	core := []Range{health, compaction}
	taken := []Range{below(prefix + aggregatorGroup)}
	for _, name := range builtIn {
		taken = append(taken, below(prefix+name))
		// API servers read the key of the directory, which does not exist, to learn the revision of etcd.
		core = append(core, below(prefix+name), Range{Key: prefix + name, ReadOnly: true})
	}
	aggregator := taken[0]
	// What is left includes the health key.
	custom := func(taken ...Range) []Range {
		return append(without(below(strings.TrimSuffix(prefix, "/")), taken), compaction)
	}
	roles := []Role{
		{Core, core},
		{Extensions, custom(append(ownOf(prefix, table, ""), taken...)...)},
		{Aggregator, []Range{aggregator, health}},
	}
	definitions := prefix + customResourceDefinitions
	for _, name := range slices.Sorted(maps.Keys(table)) {
		role := Role{UserOf(addresses.PartitionBackend(name)), []Range{health, compaction}}
		if slices.ContainsFunc(table[name], addresses.IsPattern) {
			// etcd limits users to ranges of keys, and the groups below a suffix are no range.
			role.Ranges = custom(append(append(ownOf(prefix, table, name), below(prefix+apiExtensionsGroup)), taken...)...)
		} else {
			for _, group := range table[name] {
				role.Ranges = append(role.Ranges, below(prefix+group))
			}
		}
		role.Ranges = append(role.Ranges, Range{Key: definitions, ReadOnly: true},
			Range{Key: definitions + "/", End: below(definitions).End, ReadOnly: true})
		roles = append(roles, role)
	}
	for _, service := range services {
		role := Role{UserOf(service.Name), []Range{health}}
		for _, directory := range service.Directories {
			role.Ranges = append(role.Ranges, below(directory), Range{Key: directory, ReadOnly: true})
		}
		roles = append(roles, role)
	}
	return roles
}

// ownOf returns the directories that belong to a partition alone, of all partitions but one: those of groups with a name. The groups below
// a suffix are no range of keys.
func ownOf(prefix string, table partitions.Table, except string) []Range {
	var ranges []Range
	for _, name := range slices.Sorted(maps.Keys(table)) {
		for _, group := range table[name] {
			if name != except && !addresses.IsPattern(group) {
				ranges = append(ranges, below(prefix+group))
			}
		}
	}
	return ranges
}

// below returns the range of all keys in a directory.
func below(directory string) Range {
	return Range{Key: directory + "/", End: clientv3.GetPrefixRangeEnd(directory + "/")}
}

// without returns the parts of a range that are in none of the taken ranges, which are inside of it.
func without(whole Range, taken []Range) []Range {
	slices.SortFunc(taken, func(a, b Range) int { return strings.Compare(a.Key, b.Key) })
	var left []Range
	for _, t := range taken {
		left = append(left, Range{Key: whole.Key, End: t.Key})
		whole.Key = t.End
	}
	return append(left, whole)
}

// Commands returns commands of etcdctl that do the same as Apply, for an etcd that has neither users nor roles.
func Commands(o Options) string {
	var b strings.Builder
	user := func(name, role string) {
		fmt.Fprintf(&b, "etcdctl user add %s --no-password\netcdctl user grant-role %s %s\n", name, name, role)
	}
	for _, role := range Roles(o.Prefix, o.Partitions, o.Services...) {
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
	for _, name := range append([]string{Root}, o.Administrators...) {
		user(name, Root)
	}
	b.WriteString("etcdctl auth enable\n")
	return b.String()
}
