// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service/servicetest"
)

func goodFlags(t *testing.T) servicetest.Flags {
	flags := servicetest.GoodFlags(t)
	return flags.With(servicetest.Flags{
		"tls-cert-file": flags["service-cert-file"], "tls-private-key-file": flags["service-key-file"],
		"core-servers": "https://127.0.0.1:6444", "core-grpc-servers": "127.0.0.1:7444",
		"extensions-servers": "https://127.0.0.1:6445", "extensions-grpc-servers": "127.0.0.1:7445",
		"advertise-address": "192.0.2.1",
	})
}

func TestGoodFlagsAreCompleted(t *testing.T) {
	completed, err := servicetest.Complete(t, New(), goodFlags(t))
	require.NoError(t, err)
	if got := completed.ServerRun.ExternalHost; got != "192.0.2.1" {
		t.Errorf("the external host is %q, want the advertised address", got)
	}
	assert.Equal(t, "127.0.0.1:7444", completed.Backends.Core.GRPC[0], "core serves gRPC")
}

func TestWrongFlagsAreRefused(t *testing.T) {
	lists := []string{"core-servers", "core-grpc-servers", "extensions-servers", "extensions-grpc-servers"}
	servicetest.TestRefusals(t, New, goodFlags(t), lists, []servicetest.Refusal{
		{Name: "no server of core", Flag: "core-servers", Value: "", Want: "--core-servers is required"},
		{Name: "no gRPC server of extensions", Flag: "extensions-grpc-servers", Value: "", Want: "--extensions-grpc-servers is required"},
		{Name: "a backend without a name", Flag: "backend", Value: "https://127.0.0.1:6446", Want: `--backend: "https://127.0.0.1:6446" is not of the form NAME=VALUE`},
		{Name: "a backend of a reserved name", Flag: "backend", Value: "core=https://127.0.0.1:6446", Want: `--backend: "core" is a service of Tripod itself`},
		{Name: "a backend whose name is no label", Flag: "backend", Value: "War.dle=https://127.0.0.1:6446", Want: `--backend: "War.dle" is not the name of a service`},
		{Name: "a backend without gRPC", Flag: "backend", Value: "wardle=https://127.0.0.1:6446", Want: "--backend-grpc wardle is required"},
		{Name: "gRPC of an unknown backend", Flag: "backend-grpc", Value: "wardle=127.0.0.1:7446", Want: "--backend-grpc: there is no --backend wardle=URL"},
		{Name: "a policy of an unknown backend", Flag: "backend-balance", Value: "wardle=rendezvous", Want: "--backend-balance: there is no --backend wardle=URL"},
		{Name: "a negative time", Flag: "identity-grace", Value: "-1s", Want: "--identity-grace must not be negative"},
		{Name: "a negative size", Flag: "requests-memory-mb", Value: "-1", Want: "--requests-memory-mb must not be negative"},
		{Name: "a negative size of connections", Flag: "connections-memory-mb", Value: "-1", Want: "--connections-memory-mb must not be negative"},
		{Name: "an unknown form", Flag: "apiservice-form", Value: "x", Want: `--apiservice-form must be "service" or "local", not "x"`},
		{Name: "a certificate without key", Flag: "proxy-client-cert-file", Value: "x.crt", Want: "must be given together"},
	}...)
}

func TestAdditionalBackends(t *testing.T) {
	const urls = "https://127.0.0.1:6446,https://127.0.0.1:6447"
	for name, test := range map[string]struct {
		flags AdditionalBackends
		want  map[string]addresses.Service
		// wrong is a part of the only error.
		wrong string
	}{
		"none": {},
		"two": {
			flags: AdditionalBackends{
				Servers: []string{"wardle=" + urls, "search=dns:///search:6443"}, GRPC: []string{"search=dns:///search:7443", "wardle=h:1,h:2"},
				Balance: []string{"search=rendezvous"}, Groups: []string{"wardle=a.example.com,b.example.com"},
			},
			want: map[string]addresses.Service{
				"wardle": {Replicas: addresses.Replicas{Servers: strings.Split(urls, ","), GRPC: []string{"h:1", "h:2"}}, Groups: []string{"a.example.com", "b.example.com"}},
				"search": {
					Replicas: addresses.Replicas{Servers: []string{"dns:///search:6443"}, GRPC: []string{"dns:///search:7443"}},
					Balance:  addresses.Rendezvous,
				},
			},
		},
		"twice": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h", "wardle=https://i"}, GRPC: []string{"wardle=h:1"}},
			wrong: "--backend: wardle is given twice; separate several values by commas",
		},
		"an unknown policy": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h"}, GRPC: []string{"wardle=h:1"}, Balance: []string{"wardle=best"}},
			wrong: `--backend-balance wardle: "best" is not one of two-choices, rendezvous`,
		},
		"groups of an unknown service": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h"}, GRPC: []string{"wardle=h:1"}, Groups: []string{"wardel=a.example.com"}},
			wrong: "--backend-groups: there is no --backend wardel=URL",
		},
		"no group": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h"}, GRPC: []string{"wardle=h:1"}, Groups: []string{"wardle="}},
			wrong: `--backend-groups wardle: name a group`,
		},
		"a group that is no name": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h"}, GRPC: []string{"wardle=h:1"}, Groups: []string{"wardle=apps/v1"}},
			wrong: `--backend-groups wardle: "apps/v1" is not the name of an API group`,
		},
		"less addresses than servers": {
			flags: AdditionalBackends{Servers: []string{"wardle=" + urls}, GRPC: []string{"wardle=h:1"}},
			wrong: "--backend-grpc wardle: there are 1 addresses for 2 servers",
		},
		"a partition": {
			flags: AdditionalBackends{
				Servers: []string{"extensions-big=https://h"}, GRPC: []string{"extensions-big=h:1"}, Groups: []string{"extensions-big=*.example.com,example.com"},
			},
			want: map[string]addresses.Service{"extensions-big": {
				Replicas: addresses.Replicas{Servers: []string{"https://h"}, GRPC: []string{"h:1"}}, Groups: []string{"*.example.com", "example.com"},
			}},
		},
		"a partition without groups": {
			flags: AdditionalBackends{Servers: []string{"extensions-big=https://h"}, GRPC: []string{"extensions-big=h:1"}},
			wrong: "--backend-groups extensions-big: name at least one API group",
		},
		"partitions that overlap": {
			flags: AdditionalBackends{
				Servers: []string{"extensions-a=https://h", "extensions-b=https://h"}, GRPC: []string{"extensions-a=h:1", "extensions-b=h:1"},
				Groups: []string{"extensions-a=*.example.com", "extensions-b=x.example.com"},
			},
			wrong: "--backend-groups: partitions a and b overlap: *.example.com and x.example.com have groups in common",
		},
		"a service with a group of a partition": {
			flags: AdditionalBackends{
				Servers: []string{"extensions-a=https://h", "wardle=https://h"}, GRPC: []string{"extensions-a=h:1", "wardle=h:1"},
				Groups: []string{"extensions-a=*.example.com", "wardle=x.example.com"},
			},
			wrong: "--backend-groups wardle: partition a of extensions has the group x.example.com",
		},
		"a pattern of a service": {
			flags: AdditionalBackends{Servers: []string{"wardle=https://h"}, GRPC: []string{"wardle=h:1"}, Groups: []string{"wardle=*.example.com"}},
			wrong: `--backend-groups wardle: "*.example.com" is not the name of an API group`,
		},
		"no server": {
			flags: AdditionalBackends{Servers: []string{"wardle="}, GRPC: []string{"wardle=h:1"}},
			wrong: "--backend wardle is required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := test.flags.find()
			if test.wrong != "" {
				require.NotEmpty(t, errs)
				assert.ErrorContains(t, errs[0], test.wrong)
				return
			}
			require.Empty(t, errs)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestAFileTakesThePlaceOfAdditionalBackends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.yaml")
	flags := goodFlags(t).With(servicetest.Flags{"backends-file": path, "backend": "wardle=https://h"})
	for _, list := range []string{"core-servers", "core-grpc-servers", "extensions-servers", "extensions-grpc-servers"} {
		flags[list] = ""
	}
	_, err := servicetest.Complete(t, New(), flags)
	require.ErrorContains(t, err, "--backends-file takes the place of")

	replicas := addresses.Replicas{Servers: []string{"https://h"}, GRPC: []string{"h:1"}}
	file := addresses.Backends{Core: replicas, Extensions: replicas, Services: map[string]addresses.Service{"wardle": {Replicas: replicas}}}
	require.NoError(t, file.Write(path))
	completed, err := servicetest.Complete(t, New(), flags.With(servicetest.Flags{"backend": ""}))
	require.NoError(t, err)
	assert.Equal(t, &file, completed.Backends)

	file.Services = map[string]addresses.Service{"wardle": {Replicas: addresses.Replicas{Servers: []string{"https://h"}}}}
	require.NoError(t, file.Write(path))
	_, err = servicetest.Complete(t, New(), flags.With(servicetest.Flags{"backend": ""}))
	require.ErrorContains(t, err, "does not say where wardle serves gRPC")
}

func TestAddressesOfCore(t *testing.T) {
	tests := []struct {
		name      string
		addresses []string
		// wrong are the addresses that are complained about.
		wrong []string
	}{
		{name: "one", addresses: []string{"127.0.0.1:7444"}},
		{name: "several", addresses: []string{"core-0.core:7444", "core-1.core:7444", "[::1]:7444"}},
		{name: "none", wrong: []string{"required"}},
		{name: "a URL", addresses: []string{"https://127.0.0.1:7444"}, wrong: []string{`"https://127.0.0.1:7444"`}},
		{name: "no port", addresses: []string{"core", "core:", "core:0", "core:http", "core:70000"},
			wrong: []string{`"core"`, `"core:"`, `"core:0"`, `"core:http"`, `"core:70000"`}},
		{name: "no host", addresses: []string{":7444", "core:7444", ""}, wrong: []string{`":7444"`, `""`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := validateAddresses("core-grpc-servers", test.addresses, []string{"https://a:1", "https://b:2", "https://c:3"}[:min(len(test.addresses), 3)])
			require.Len(t, errs, len(test.wrong), "errors")
			for i, err := range errs {
				if text := err.Error(); !strings.Contains(text, "--core-grpc-servers") || !strings.Contains(text, test.wrong[i]) {
					t.Errorf("error %q does not name the flag and %s", text, test.wrong[i])
				}
			}
		})
	}
}

func TestAdmissionPluginsOfOtherServicesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"NamespaceLifecycle": "--enable-admission-plugins: NamespaceLifecycle does not belong here but to core and extensions",
		"LimitRanger":        "--enable-admission-plugins: LimitRanger does not belong here but to core,",
		"Nope":               `enable-admission-plugins plugin "Nope" is unknown`,
		"AlwaysDeny":         "",
	} {
		o := New()
		o.Admission.EnablePlugins = []string{name}
		errs := o.AccessOptions.Validate()
		if (len(errs) > 0) != (want != "") || (want != "" && !strings.HasPrefix(errs[0].Error(), want)) {
			t.Errorf("%s: errors are %v, want %q", name, errs, want)
		}
	}
}
