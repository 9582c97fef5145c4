// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ForgetHistory makes etcd forget its history until now, as kube-apiserver does every few minutes. etcd then refuses watches from before.
// kine keeps the last 1,000 revisions, whatever it is asked.
func (c *Cluster) ForgetHistory(ctx context.Context) error {
	config, err := c.etcd(ctx)
	if err != nil {
		return fmt.Errorf("cannot find the etcd of %s: %w", c.Name, err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		return fmt.Errorf("cannot make a client for the etcd of %s: %w", c.Name, err)
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	now, err := client.Get(ctx, "/")
	if err == nil {
		_, err = client.Compact(ctx, now.Header.GetRevision())
	}
	if err != nil {
		return fmt.Errorf("cannot compact the etcd of %s: %w", c.Name, err)
	}
	return nil
}

// plainEtcd finds an etcd that needs no certificates.
func plainEtcd(url string) func(context.Context) (clientv3.Config, error) {
	return func(context.Context) (clientv3.Config, error) {
		return clientv3.Config{Endpoints: []string{url}}, nil
	}
}

// embeddedEtcd finds the etcd that `tripod up` started.
func (t *Tripod) embeddedEtcd(ctx context.Context) (clientv3.Config, error) {
	etcds, err := t.Replicas(ctx, "etcd")
	if err != nil {
		return clientv3.Config{}, err
	}
	if len(etcds) != 1 {
		return clientv3.Config{}, errors.New("it has no etcd of its own")
	}
	files := transport.TLSInfo{
		TrustedCAFile: filepath.Join(t.PKI, "etcd-ca.crt"),
		CertFile:      filepath.Join(t.PKI, "apiserver-etcd-client.crt"),
		KeyFile:       filepath.Join(t.PKI, "apiserver-etcd-client.key"),
	}
	tlsConfig, err := files.ClientConfig()
	return clientv3.Config{Endpoints: []string{etcds[0].Address}, TLS: tlsConfig}, err
}
