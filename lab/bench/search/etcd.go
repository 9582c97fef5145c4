// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

const (
	// loaders write at a time, putsAtOnce objects in a transaction.
	loaders    = 4
	putsAtOnce = 100
)

var stored = protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)

// put writes an object as kube-apiserver stores it.
func put(prefix, namespace, name string, object runtime.Object) (clientv3.Op, error) {
	var value bytes.Buffer
	if err := stored.Encode(object, &value); err != nil {
		return clientv3.Op{}, fmt.Errorf("encode %s/%s: %w", namespace, name, err)
	}
	return clientv3.OpPut("/registry/"+prefix+"/"+namespace+"/"+name, value.String()), nil
}

// puts writes all objects of an application.
func (a app) puts() (ops []clientv3.Op, err error) {
	add := func(prefix, name string, object runtime.Object) {
		op, failed := put(prefix, a.namespace(), name, object)
		if ops = append(ops, op); failed != nil {
			err = failed
		}
	}
	add("deployments", a.name(), a.deployment())
	add("replicasets", a.name()+"-"+a.hash(), a.replicaSet())
	for i := range podsEach {
		add("pods", a.pod(i), a.podObject(i))
	}
	add("services/specs", a.name(), a.service())
	add("configmaps", a.name(), a.configMap())
	return ops, err
}

// fill writes the first applications of a cluster into its etcd.
func fill(ctx context.Context, client *clientv3.Client, cluster, apps int) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range loaders {
		group.Go(func() error {
			for {
				var ops []clientv3.Op
				from := int(next.Add(putsAtOnce/appSize)) - putsAtOnce/appSize
				for n := from; n < min(from+putsAtOnce/appSize, apps); n++ {
					more, err := app{cluster, n}.puts()
					if err != nil {
						return err
					}
					ops = append(ops, more...)
				}
				if len(ops) == 0 {
					return nil
				}
				if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
					return fmt.Errorf("load cluster %d: %w", cluster, err)
				}
			}
		})
	}
	return group.Wait()
}
