// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
)

const (
	// accessTimeout bounds the first start. Hundreds of ranges are written to a disk that may be slow.
	accessTimeout = time.Minute

	etcdPrefixFlag    = "--etcd-prefix="
	defaultEtcdPrefix = "/registry"
)

// limitAccess gives each service a user in the embedded etcd, which reaches only what is its own.
func (i *instance) limitAccess(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	client, err := access.Connect([]string{i.args.etcd.URL()},
		i.store.CertFile(etcdCA), i.store.CertFile(etcdClient), i.store.KeyFile(etcdClient))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	options := access.Options{Prefix: i.options.etcdPrefix(), Progress: func(string) {}}
	if options.Partitions, err = i.options.partitions(); err != nil {
		return err
	}
	for _, name := range i.options.additionalServices() {
		options.Services = append(options.Services, access.Service{Name: name, Directories: []string{etcdDirectory(name)}})
	}
	return access.Apply(ctx, client, options)
}

// etcdPrefix returns the prefix of all keys, which all services have in common.
func (o *Options) etcdPrefix() string {
	for _, flag := range slices.Backward(o.CoreArgs) {
		if prefix, ok := strings.CutPrefix(flag, etcdPrefixFlag); ok {
			return prefix
		}
	}
	return defaultEtcdPrefix
}
