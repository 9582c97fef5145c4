// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
)

// etcdServers has the flags of commands that change an etcd as its user root.
type etcdServers struct {
	endpoints                 []string
	caFile, certFile, keyFile string
	timeout                   time.Duration
}

func (o *etcdServers) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.endpoints, "endpoints", nil, "URLs of the members of etcd, comma separated")
	fs.StringVar(&o.caFile, "cacert", "", "CA of etcd")
	fs.StringVar(&o.certFile, "cert", "", "client certificate with the common name root")
	fs.StringVar(&o.keyFile, "key", "", "key of the client certificate")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for etcd")
}

func (o *etcdServers) validate() error {
	if len(o.endpoints) == 0 {
		return errors.New("no etcd: set --endpoints")
	}
	return nil
}

// use calls a function with a client once etcd answers. The context ends with --timeout, or by a signal.
func (o *etcdServers) use(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	return o.try(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if err := access.Await(ctx, client); err != nil {
			return err
		}
		return do(ctx, client)
	})
}

// try calls a function with a client, whether or not etcd answers. The context ends with --timeout, or by a signal.
func (o *etcdServers) try(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	silenceGRPC()
	client, err := access.Connect(o.endpoints, o.caFile, o.certFile, o.keyFile)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return do(ctx, client)
}
