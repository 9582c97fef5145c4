// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdready waits for etcd, and refuses one that is too old. The storage of a generic API server gives up, with a stack trace, when
// etcd does not answer while it is being built; a service that waits first can be started before etcd.
package etcdready

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

const (
	retryInterval = time.Second
	probeTimeout  = 3 * time.Second
)

// ErrStopped is what Wait returns when its context ended first.
var ErrStopped = errors.New("stopped while waiting for etcd")

// Wait returns when etcd has answered a read, or with an error when the context ends first, if the files of the
// configuration cannot be used, or if this etcd is too old ([etcdversion.ErrTooOld]).
// Meanwhile it answers on the port of serving that it is not ready, and why.
// serving keeps the listener for the server to come.
func Wait(ctx context.Context, config storagebackend.Config, serving *options.SecureServingOptions) error {
	servers := strings.Join(config.Transport.ServerList, ",")
	client, err := newClient(ctx, config.Transport)
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", servers, err)
	}
	defer client.Close() //nolint:errcheck // nothing was written
	checkFeatures(ctx, config.Transport)

	if probe(ctx, client, config.Prefix) == nil {
		return checkVersion(ctx, client, servers)
	}
	stop, err := serveUnready(serving)
	if err != nil {
		return err
	}
	defer stop()

	err = poll(ctx, client, config.Prefix, func(err error) {
		klog.InfoS("Waiting for etcd", "servers", servers, "reason", err.Error())
	})
	if err != nil {
		return fmt.Errorf("%w at %s", ErrStopped, servers)
	}
	return checkVersion(ctx, client, servers)
}

// Check returns when etcd has answered a read, or with the reason why it has not when the context ends. It refuses an etcd as Wait does.
func Check(ctx context.Context, config storagebackend.Config) error {
	servers := strings.Join(config.Transport.ServerList, ",")
	client, err := newClient(ctx, config.Transport)
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", servers, err)
	}
	defer client.Close() //nolint:errcheck // nothing was written
	last := context.DeadlineExceeded
	err = poll(ctx, client, config.Prefix, func(err error) { last = err })
	if err != nil {
		return fmt.Errorf("etcd at %s does not answer: %w", servers, last)
	}
	return checkVersion(ctx, client, servers)
}

// poll returns when etcd has answered a read, or with an error when the context ends. It reports why etcd did not
// answer, as long as that is not because the context ended.
func poll(ctx context.Context, client *clientv3.Client, prefix string, failed func(error)) error {
	return wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		err := probe(ctx, client, prefix)
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		return err == nil, nil
	})
}

// probe reads the key that the health check of kube-apiserver reads, so that it needs no other right in etcd.
func probe(ctx context.Context, client *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := client.Get(ctx, path.Join("/", prefix, "health"))
	return err
}

// checkServer refuses what the client would take for an address that never answers.
func checkServer(server string) error {
	if u, err := url.Parse(server); err == nil && u.Scheme != "" && (u.Host != "" || u.Path != "") {
		return nil
	}
	if host, port, err := net.SplitHostPort(server); err == nil && port != "" && !strings.Contains(host, "/") {
		return nil
	}
	return fmt.Errorf("--etcd-servers: %q is not a URL such as https://127.0.0.1:2379", server)
}

func newClient(ctx context.Context, config storagebackend.TransportConfig) (*clientv3.Client, error) {
	for _, server := range config.ServerList {
		if err := checkServer(server); err != nil {
			return nil, err
		}
	}
	clientConfig := clientv3.Config{
		Context:   ctx,
		Endpoints: config.ServerList,
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryInterval / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retryInterval},
			MinConnectTimeout: probeTimeout,
		})},
	}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
		tlsConfig, err := files.ClientConfig()
		if err != nil {
			return nil, err
		}
		clientConfig.TLS = tlsConfig
	}
	return clientv3.New(clientConfig)
}
