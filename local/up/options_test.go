// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/list"
)

// validOptions returns options as `tripod up` has them without flags.
func validOptions(t *testing.T) Options {
	t.Helper()
	o := DefaultOptions()
	o.DataDir = t.TempDir()
	return o
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Options)
		want   string // part of the error, or nothing
	}{
		{name: "defaults", change: func(*Options) {}},
		{name: "free port", change: func(o *Options) { o.Port = 0 }},
		{name: "negative port", change: func(o *Options) { o.Port = -1 }, want: "--port -1"},
		{name: "large port", change: func(o *Options) { o.Port = 65536 }, want: "--port 65536"},
		{name: "no address", change: func(o *Options) { o.BindAddress = nil }, want: "--bind-address"},
		{name: "many replicas", change: func(o *Options) { o.CoreReplicas, o.ExtensionsReplicas, o.AggregatorReplicas = 20, 2, 3 }},
		{name: "no replica", change: func(o *Options) { o.ExtensionsReplicas = 0 }, want: "--extensions-replicas 0 is not between 1 and 20"},
		{name: "too many replicas", change: func(o *Options) { o.AggregatorReplicas = 21 }, want: "--aggregator-replicas 21 is not between 1 and 20"},
		{name: "more replicas than ports", change: func(o *Options) { o.Port, o.AggregatorReplicas = 65535, 2 },
			want: "--port 65535 with --aggregator-replicas 2 would need port 65536"},
		{name: "balancer on the last port", change: func(o *Options) { o.Port, o.AggregatorReplicas, o.LoadBalancer = 65535, 2, true }},
		{name: "local form", change: func(o *Options) { o.APIServiceForm = "local" }},
		{name: "unknown form", change: func(o *Options) { o.APIServiceForm = "x" }, want: `--apiservice-form must be "service" or "local", not "x"`},
		{name: "etcd", change: func(o *Options) { o.EtcdServers = []string{"http://127.0.0.1:2379", "https://etcd:2379"} }},
		{name: "etcd without scheme", change: func(o *Options) { o.EtcdServers = []string{"127.0.0.1:2379"} }, want: `"127.0.0.1:2379"`},
		{name: "etcd without port", change: func(o *Options) { o.CoreEtcdServers = []string{"http://etcd"} }, want: `"http://etcd"`},
		{name: "etcd of another scheme", change: func(o *Options) { o.AggregatorEtcdServers = []string{"unix://etcd:1"} }, want: "unix"},
		{name: "certificate without key", change: func(o *Options) { o.EtcdCertFile = "x" }, want: "--etcd-keyfile"},
		{name: "gates for all", change: func(o *Options) { o.Shared = map[string][]string{"feature-gates": {"X=true"}} }},
		{name: "the same gates for each", change: func(o *Options) {
			o.CoreArgs, o.ExtensionsArgs = []string{"--feature-gates=X=true"}, []string{"--v=4", "--feature-gates", "X=true"}
			o.AggregatorArgs = []string{"--feature-gates=X=true"}
		}},
		{name: "a gate for some", change: func(o *Options) {
			o.CoreArgs, o.ExtensionsArgs = []string{"--feature-gates=X=true"}, []string{"--feature-gates=X=true"}
		}, want: "--feature-gates must be the same for all services"},
		{name: "other groups in one", change: func(o *Options) { o.ExtensionsArgs = []string{"--runtime-config=api/all=true"} },
			want: "--runtime-config must be the same for all services"},
		{name: "additional services", change: func(o *Options) {
			o.Services, o.ServiceArgs = []string{"wardle=/bin/sh", "books=/bin/sh"}, []string{"wardle=--v=4"}
		}},
		{name: "partitions", change: func(o *Options) { o.Partitions = []string{"a=*.example.com", "b=example.com,example.org"} }},
		{name: "a partition without groups", change: func(o *Options) { o.Partitions = []string{"a="} },
			want: "--extensions-partition: partition a: name at least one API group"},
		{name: "partitions that overlap", change: func(o *Options) { o.Partitions = []string{"a=*.example.com", "b=x.example.com"} },
			want: "--extensions-partition: partitions a and b overlap: *.example.com and x.example.com have groups in common"},
		{name: "a partition with a built-in group", change: func(o *Options) { o.Partitions = []string{"a=*.k8s.io"} },
			want: "--extensions-partition: partition a: *.k8s.io has the group admissionregistration.k8s.io, which is built in"},
		{name: "a partition of everything", change: func(o *Options) { o.Partitions = []string{"a=*"} },
			want: `--extensions-partition: partition a: "*" matches every API group: give groups, or *.SUFFIX`},
		{name: "a service with the name of a partition", change: func(o *Options) { o.Services = []string{"extensions-a=/bin/sh"} },
			want: `--service: "extensions-a" is the name of a partition of extensions: choose another name`},
		{name: "a service without a path", change: func(o *Options) { o.Services = []string{"wardle"} }, want: `--service "wardle" is not of the form NAME=PATH`},
		{name: "a service of Tripod", change: func(o *Options) { o.Services = []string{"core=/bin/sh"} }, want: `--service: "core" is a service of Tripod itself`},
		{name: "a service with the name of another process", change: func(o *Options) { o.Services = []string{"etcd=/bin/sh"} },
			want: `--service: "etcd" is a process of tripod up`},
		{name: "a service with the name of search", change: func(o *Options) { o.Services = []string{"search=/bin/sh"} },
			want: `--service: "search" is a process of tripod up`},
		{name: "search, and a service with its name", change: func(o *Options) {
			o.Optional[list.Search], o.Services = true, []string{"search=/bin/sh", "search=/bin/sh"}
		},
			want: `--service: there is a process "search" already`},
		{name: "a service whose name is no label", change: func(o *Options) { o.Services = []string{"a/b=/bin/sh"} }, want: `--service: "a/b" is not the name of a service`},
		{name: "a service twice", change: func(o *Options) { o.Services = []string{"a=/bin/sh", "a=/bin/sh"} }, want: `--service: there is a process "a" already`},
		{name: "a program that is missing", change: func(o *Options) { o.Services = []string{"a=/missing"} }, want: "--service a: stat /missing: no such file"},
		{name: "no program", change: func(o *Options) { o.Services = []string{"a=options_test.go"} }, want: "--service a: options_test.go is not an executable file"},
		{name: "a directory", change: func(o *Options) { o.Services = []string{"a=/bin"} }, want: "--service a: /bin is not an executable file"},
		{name: "a flag of search", change: func(o *Options) { o.Optional[list.Search], o.ServiceArgs = true, []string{"search=--v=4"} }},
		{name: "a flag of search without it", change: func(o *Options) { o.ServiceArgs = []string{"search=--v=4"} }, want: "--service-arg: there is no --service search=PATH"},
		{name: "a flag of no service", change: func(o *Options) { o.ServiceArgs = []string{"a=--v=4"} }, want: "--service-arg: there is no --service a=PATH"},
		{name: "a flag without dashes", change: func(o *Options) { o.ServiceArgs = []string{"a=v"} }, want: `--service-arg "a=v" is not of the form NAME=--FLAG`},
		{name: "key without certificate", change: func(o *Options) { o.EtcdKeyFile = "x" }, want: "--etcd-certfile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := validOptions(t)
			tc.change(&o)
			err := o.Validate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error is %v, want something with %s", err, tc.want)
			}
		})
	}
}

func TestEmbeddedEtcdIsForServicesWithoutAnother(t *testing.T) {
	one := []string{"http://127.0.0.1:2379"}
	for _, tc := range []struct {
		name    string
		options Options
		want    bool
	}{
		{name: "none has another", want: true},
		{name: "all have another", options: Options{EtcdServers: one}},
		{name: "each has its own", options: Options{CoreEtcdServers: one, ExtensionsEtcdServers: one, AggregatorEtcdServers: one}},
		{name: "one has its own", options: Options{ExtensionsEtcdServers: one}, want: true},
		{name: "two have their own", options: Options{CoreEtcdServers: one, ExtensionsEtcdServers: one}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.options.needsEmbeddedEtcd())
		})
	}
}

func TestPathsBecomeAbsolute(t *testing.T) {
	o := Options{DataDir: ".tripod", EtcdCAFile: "ca.crt", EtcdKeyFile: "/etc/key", Services: []string{"a=b", "c=/d"}}
	require.NoError(t, o.complete())
	if !filepath.IsAbs(o.DataDir) || !filepath.IsAbs(o.EtcdCAFile) || o.EtcdKeyFile != "/etc/key" || o.EtcdCertFile != "" ||
		!filepath.IsAbs(strings.TrimPrefix(o.Services[0], "a=")) || o.Services[1] != "c=/d" {
		t.Errorf("options are %+v", o)
	}
}
