// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// newArguments returns the arguments of an instance that has an embedded etcd and an address to advertise.
func newArguments(t *testing.T, options Options) *arguments {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	port, err := replicas.ReservePort()
	require.NoError(t, err)
	t.Cleanup(port.Release)
	if options.BindAddress == nil {
		options.BindAddress = net.IPv4(127, 0, 0, 1)
	}
	return &arguments{options: &options, store: store, port: 6443, advertise: net.IPv4(192, 0, 2, 1), etcd: port}
}

// lastValue returns the value that counts when a flag is given several times.
func lastValue(args []string, name string) (value string, given bool) {
	for _, arg := range slices.Backward(args) {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// none is the value of a flag that a service does not get.
const none = "(not given)"

// argumentTests are options of an instance, and flags of its services.
var argumentTests = []struct {
	name    string
	options Options
	change  func(*arguments)
	want    map[string]map[string]string // by service and flag; DIR is the pki directory, ETCD the embedded etcd
}{
	{
		name:    "by default",
		options: Options{APIServiceForm: "service"},
		want: map[string]map[string]string{
			replicas.Core: {
				"replica": "core-1", "advertise-address": "192.0.2.1", "endpoint-reconciler-type": none,
				"etcd-servers": "ETCD", "etcd-cafile": "DIR/etcd-ca.crt",
				"etcd-certfile": "DIR/etcd-core.crt", "etcd-keyfile": "DIR/etcd-core.key",
				"client-ca-file": "DIR/ca.crt", "requestheader-client-ca-file": "DIR/front-proxy-ca.crt",
				"requestheader-allowed-names": "front-proxy-client",
				"service-cluster-ip-range":    "10.0.0.0/24", "authorization-mode": "Node,RBAC",
				"enable-bootstrap-token-auth": "true", "allow-privileged": "true",
				"enable-admission-plugins":         "NodeRestriction",
				"service-account-issuer":           "https://kubernetes.default.svc.cluster.local",
				"service-account-key-file":         "DIR/sa.pub",
				"service-account-signing-key-file": "DIR/sa.key",
				"kubelet-client-certificate":       "DIR/kubelet-client.crt", "kubelet-client-key": "DIR/kubelet-client.key",
				"bind-kubelet-client": "true", "proxy-client-cert-file": none, "proxy-client-key-file": none,
			},
			replicas.Extensions: {"replica": "extensions-2", "etcd-servers": "ETCD", "client-ca-file": none, "authorization-mode": "Node,RBAC"},
			replicas.Aggregator: {
				"replica": "aggregator-3", "etcd-servers": "ETCD", "bind-address": "127.0.0.1", "secure-port": "6446",
				"tls-cert-file": "DIR/apiserver.crt", "tls-private-key-file": "DIR/apiserver.key",
				"client-ca-file": "DIR/ca.crt", "requestheader-client-ca-file": "DIR/front-proxy-ca.crt",
				"proxy-client-cert-file": "DIR/front-proxy-client.crt", "proxy-client-key-file": "DIR/front-proxy-client.key",
				"apiservice-form": "service", "authorization-mode": "Node,RBAC",
			},
		},
	},
	{
		name:    "one etcd for all, without TLS",
		options: Options{EtcdServers: []string{"http://a:1", "http://b:2"}},
		want: map[string]map[string]string{
			replicas.Core:       {"etcd-servers": "http://a:1,http://b:2", "etcd-cafile": none, "etcd-certfile": none, "etcd-keyfile": none},
			replicas.Extensions: {"etcd-servers": "http://a:1,http://b:2", "etcd-cafile": none},
			replicas.Aggregator: {"etcd-servers": "http://a:1,http://b:2", "etcd-cafile": none},
		},
	},
	{
		name: "an etcd for extensions, with TLS",
		options: Options{
			ExtensionsEtcdServers: []string{"https://a:1"}, EtcdCAFile: "/ca", EtcdCertFile: "/cert", EtcdKeyFile: "/key",
		},
		want: map[string]map[string]string{
			replicas.Core:       {"etcd-servers": "ETCD", "etcd-cafile": "DIR/etcd-ca.crt"},
			replicas.Extensions: {"etcd-servers": "https://a:1", "etcd-cafile": "/ca", "etcd-certfile": "/cert", "etcd-keyfile": "/key"},
			replicas.Aggregator: {"etcd-servers": "ETCD", "etcd-cafile": "DIR/etcd-ca.crt"},
		},
	},
	{
		name:    "an etcd for all but core",
		options: Options{EtcdServers: []string{"http://a:1"}, CoreEtcdServers: []string{"http://b:2"}},
		want: map[string]map[string]string{
			replicas.Core:       {"etcd-servers": "http://b:2"},
			replicas.Extensions: {"etcd-servers": "http://a:1"},
			replicas.Aggregator: {"etcd-servers": "http://a:1"},
		},
	},
	{
		name: "further flags come last",
		options: Options{
			CoreArgs: []string{"--authorization-mode=AlwaysAllow"}, ExtensionsArgs: []string{"--replica=x"},
			AggregatorArgs: []string{"--secure-port=1"},
		},
		want: map[string]map[string]string{
			replicas.Core:       {"authorization-mode": "AlwaysAllow"},
			replicas.Extensions: {"replica": "x"},
			replicas.Aggregator: {"secure-port": "1"},
		},
	},
	{
		name: "further flags that differ between replicas",
		options: Options{
			CoreArgs:       []string{"--audit-log-path=/var/log/{replica}.log"},
			AggregatorArgs: []string{"--debug-socket-path=/run/{replica}/{replica}"},
		},
		want: map[string]map[string]string{
			replicas.Core:       {"audit-log-path": "/var/log/core-1.log"},
			replicas.Aggregator: {"debug-socket-path": "/run/aggregator-3/aggregator-3"},
		},
	},
	{
		name: "an additional service",
		options: Options{
			Services: []string{"wardle=/wardle", "search=/search"}, ServiceArgs: []string{"wardle=--v={replica}", "search=--v=5"},
		},
		want: map[string]map[string]string{
			"wardle": {
				"replica": "wardle-4", "etcd-servers": "ETCD", "etcd-prefix": "/services/wardle", "etcd-compaction-interval": "0",
				"etcd-certfile": "DIR/etcd-api-service-wardle.crt", "v": "wardle-4", "authorization-mode": none,
			},
			replicas.Extensions: {"etcd-prefix": none, "v": none},
		},
	},
	{
		name:   "no address that endpoints may have",
		change: func(a *arguments) { a.advertise = nil },
		want: map[string]map[string]string{
			replicas.Core:       {"advertise-address": "127.0.0.1", "endpoint-reconciler-type": "none"},
			replicas.Aggregator: {"advertise-address": "127.0.0.1"},
		},
	},
}

func TestArguments(t *testing.T) {
	for _, tc := range argumentTests {
		t.Run(tc.name, func(t *testing.T) {
			a := newArguments(t, tc.options)
			if tc.change != nil {
				tc.change(a)
			}
			dir := strings.TrimSuffix(a.store.CertFile("x"), "/x.crt")
			got := map[string][]string{
				"wardle":      a.additionalService("wardle", "wardle-4"),
				replicas.Core: a.core("core-1"), replicas.Extensions: a.extensions("extensions-2"),
				replicas.Aggregator: a.aggregator("aggregator-3", net.IPv4(127, 0, 0, 1), "6446"),
			}
			for service, flags := range tc.want {
				for name, want := range flags {
					value, given := lastValue(got[service], name)
					if !given {
						value = none
					}
					want = strings.ReplaceAll(strings.ReplaceAll(want, "DIR", dir), "ETCD", a.etcd.URL())
					if value != want {
						t.Errorf("%s has --%s %s, want %s", service, name, value, want)
					}
				}
			}
		})
	}
}

func TestEmbeddedEtcdArguments(t *testing.T) {
	a := newArguments(t, Options{})
	args := a.embeddedEtcd("/data")
	if got := args[:2]; !slices.Equal(got, []string{"etcd", "run"}) {
		t.Errorf("the command is %q", got)
	}
	for name, want := range map[string]string{
		"data-dir": "/data/etcd", "client-url": a.etcd.URL(), "cert-file": a.store.CertFile("etcd-server"),
		"key-file": a.store.KeyFile("etcd-server"), "trusted-ca-file": a.store.CertFile("etcd-ca"),
	} {
		if value, _ := lastValue(args, name); value != want {
			t.Errorf("--%s is %q, want %q", name, value, want)
		}
	}
}

func TestSharedFlagsAreThoseOfAllServices(t *testing.T) {
	a := newArguments(t, Options{Shared: map[string][]string{"feature-gates": {"A=true", "B=false"}, "emulated-version": {"1.35"}}})
	for service, args := range map[string][]string{
		replicas.Core: a.core("core-0"), replicas.Extensions: a.extensions("extensions-0"), replicas.Aggregator: a.aggregator("aggregator-0", net.IPv4zero, "6443"),
	} {
		for _, want := range []string{"--feature-gates=A=true", "--feature-gates=B=false", "--emulated-version=1.35"} {
			if !slices.Contains(args, want) {
				t.Errorf("%s gets %q without %s", service, args, want)
			}
		}
	}
}
