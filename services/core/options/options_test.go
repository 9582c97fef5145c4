// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/tripod-k8s/tripod/base/service/servicetest"
)

func names(sets cliflag.NamedFlagSets) []string {
	var all []string
	for _, set := range sets.FlagSets {
		set.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	}
	slices.Sort(all)
	return all
}

func TestFlagsAreThoseOfKubeAPIServerAndOwn(t *testing.T) {
	want := append(names(options.NewServerRunOptions().Flags()),
		"service-ca-file", "service-cert-file", "service-key-file", "allow-direct-clients", "probe-bind-address", "grpc-bind-address", "advertise-port", "bind-kubelet-client", "replica",
		"aggregator-servers", "backends-file", "audit-log-socket")
	slices.Sort(want)
	assert.Equal(t, want, names(*New().Flags()), "flags")
}

func goodFlags(t *testing.T) servicetest.Flags {
	flags := servicetest.GoodFlags(t)
	certFile, keyFile := flags["service-cert-file"], flags["service-key-file"]
	return flags.With(servicetest.Flags{
		"tls-cert-file": certFile, "tls-private-key-file": keyFile,
		"service-account-key-file": keyFile, "service-account-signing-key-file": keyFile,
		"service-account-issuer": "https://kubernetes.default.svc",
		"advertise-address":      "192.0.2.1",
	})
}

func TestGoodFlagsAreCompleted(t *testing.T) {
	for _, changed := range []servicetest.Flags{nil, {"advertise-port": "6443", "replica": "core-1"}} {
		completed, err := servicetest.Complete(t, New(), goodFlags(t).With(changed))
		require.NoError(t, err)
		// What is completed is what the server is built from.
		if completed.Kube.Etcd != completed.Etcd || completed.Kube.SecureServing != completed.SecureServing ||
			completed.Kube.GenericServerRunOptions != completed.ServerRun {
			t.Error("kube-apiserver's options are not those of the service")
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	servicetest.TestRefusals(t, New, goodFlags(t), nil, []servicetest.Refusal{
		{Name: "port too high", Flag: "advertise-port", Value: "65536", Want: "--advertise-port: 65536 is not between 0 and 65535"},
		{Name: "negative port", Flag: "advertise-port", Value: "-1", Want: "--advertise-port: -1"},
		{Name: "a peer", Flag: "peer-advertise-ip", Value: "192.0.2.1", Want: "cannot be used with Tripod"},
		{Name: "the CA of peers", Flag: "peer-ca-file", Value: "ca.crt", Want: "cannot be used with Tripod"},
		{Name: "an address of gRPC without a port", Flag: "grpc-bind-address", Value: "127.0.0.1", Want: "--grpc-bind-address: "},
		{Name: "kube-apiserver's validation", Flag: "service-account-issuer", Value: "", Want: "service-account-issuer"},
		{Name: "kube-apiserver's completion", Flag: "service-cluster-ip-range", Value: "nonsense", Want: "service-cluster-ip-range"},
	}...)
}
