// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/tracing"
)

// Those of kube-apiserver (k8s.io/apiserver/pkg/storage/storagebackend/factory): a lost server is noticed soon.
const (
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// maxReconnectDelay bounds how long requests wait for an etcd that is back. The default of gRPC is two minutes.
const maxReconnectDelay = 3 * time.Second

// dial returns a client that connects when it is first used. It reads its certificate anew for each connection.
func dial(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	options := clientv3.Config{
		Endpoints:            config.ServerList,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		Logger:               zap.NewNop(),
	}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
		tlsConfig, err := files.ClientConfig()
		if err != nil {
			return nil, err
		}
		options.TLS = tlsConfig
	}
	metrics, err := clientMetrics()
	if err != nil {
		return nil, err
	}
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = maxReconnectDelay
	options.DialOptions = []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: maxReconnectDelay}),
		// Chained, because the client has interceptors of its own.
		grpc.WithChainUnaryInterceptor(metrics.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(metrics.StreamClientInterceptor()),
	}
	if config.TracerProvider != nil {
		options.DialOptions = append(options.DialOptions, grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithPropagators(tracing.Propagators()),
			otelgrpc.WithTracerProvider(config.TracerProvider),
		)))
	}
	if config.EgressLookup != nil {
		through, err := config.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		if through != nil {
			options.DialOptions = append(options.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return through(ctx, "tcp", hostPort(address))
			}))
		}
	}
	client, err := clientv3.New(options)
	if err != nil {
		return nil, fmt.Errorf("client for etcd at %s: %w", strings.Join(config.ServerList, ","), err)
	}
	return client, nil
}

// hostPort returns where an endpoint is, which may be given as a URL.
func hostPort(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

// clientMetrics returns kube-apiserver's metrics of etcd clients (grpc_client_*), which its storage registers for itself.
func clientMetrics() (*grpcprom.ClientMetrics, error) {
	metrics := grpcprom.NewClientMetrics()
	err := legacyregistry.Registerer().Register(metrics)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if existing, ok := registered.ExistingCollector.(*grpcprom.ClientMetrics); ok {
			return existing, nil
		}
	}
	return metrics, err
}
