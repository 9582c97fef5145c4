// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
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
		"service-ca-file", "service-cert-file", "service-key-file", "allow-direct-clients", "probe-bind-address", "grpc-bind-address", "advertise-port", "replica",
		"aggregator-servers", "backends-file", "audit-log-socket")
	slices.Sort(want)
	if got := names(*New().Flags()); !slices.Equal(got, want) {
		t.Errorf("flags:\n%v\nwant\n%v", got, want)
	}
}

// serviceFlags returns flags with files that are good.
func serviceFlags(t *testing.T) map[string]string {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := dir+"/tls.crt", dir+"/tls.key"
	if err := cert.WriteCert(certFile, certPEM); err != nil {
		t.Fatal(err)
	}
	if err := keyutil.WriteKey(keyFile, keyPEM); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"service-ca-file": certFile, "service-cert-file": certFile, "service-key-file": keyFile,
		"tls-cert-file": certFile, "tls-private-key-file": keyFile,
		"service-account-key-file": keyFile, "service-account-signing-key-file": keyFile,
		"service-account-issuer": "https://kubernetes.default.svc",
		"etcd-servers":           "http://127.0.0.1:2379",
		"advertise-address":      "192.0.2.1",
	}
}

// args are the arguments for flags with some changed; an empty value leaves a flag out.
func args(flags, changed map[string]string) []string {
	maps.Copy(flags, changed)
	var result []string
	for name, value := range flags {
		if value != "" {
			result = append(result, "--"+name+"="+value)
		}
	}
	return result
}

func TestComplete(t *testing.T) {
	tests := []struct {
		name string
		// flags are changed in good ones; an empty value leaves one out.
		flags map[string]string
		// want is a part of the error, empty for none.
		want string
	}{
		{name: "good flags"},
		{name: "own flags", flags: map[string]string{"advertise-port": "6443", "replica": "core-1"}},
		{name: "no service CA", flags: map[string]string{"service-ca-file": ""}, want: "--service-ca-file: required"},
		{name: "port too high", flags: map[string]string{"advertise-port": "65536"}, want: "--advertise-port: 65536 is not between 0 and 65535"},
		{name: "negative port", flags: map[string]string{"advertise-port": "-1"}, want: "--advertise-port: -1"},
		{name: "a peer", flags: map[string]string{"peer-advertise-ip": "192.0.2.1"}, want: "cannot be used with Tripod"},
		{name: "the CA of peers", flags: map[string]string{"peer-ca-file": "ca.crt"}, want: "cannot be used with Tripod"},
		{name: "kube-apiserver's validation", flags: map[string]string{"etcd-servers": ""}, want: "--etcd-servers must be specified"},
		{name: "kube-apiserver's completion", flags: map[string]string{"service-cluster-ip-range": "nonsense"}, want: "service-cluster-ip-range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := New()
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			for _, set := range o.Flags().FlagSets {
				fs.AddFlagSet(set)
			}
			if err := fs.Parse(args(serviceFlags(t), test.flags)); err != nil {
				t.Fatal(err)
			}
			_, err := o.Complete(t.Context())
			switch {
			case test.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
