// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
)

// goodFlags returns the flags that are required, with files that are good.
func goodFlags(t *testing.T) map[string]string {
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
		"etcd-servers": "http://127.0.0.1:2379",
		"core-servers": "https://127.0.0.1:6444,https://127.0.0.1:6445/",
		"bind-address": "127.0.0.1",
	}
}

// complete completes good flags with some changed; an empty value leaves a flag out.
func complete(t *testing.T, changed map[string]string) (*Completed, error) {
	t.Helper()
	o := New()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	flags := goodFlags(t)
	maps.Copy(flags, changed)
	var args []string
	for name, value := range flags {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o.Complete()
}

func TestCompleteWithGoodFlags(t *testing.T) {
	completed, err := complete(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(completed.CoreURLs) != 2 || completed.CoreURLs[1].Host != "127.0.0.1:6445" {
		t.Errorf("servers of core: %v", completed.CoreURLs)
	}
	if got, want := completed.SecureServing.ServerCert.CertKey.CertFile, completed.ServiceTrust.CertFile; got != want {
		t.Errorf("serves with certificate %q, want the service's, %q", got, want)
	}
	if got := completed.Etcd.StorageConfig.Prefix; got != "/registry" {
		t.Errorf("etcd prefix %q, want kube-apiserver's", got)
	}
}

func TestCompleteAcceptsWhatConcernsOtherServices(t *testing.T) {
	_, err := complete(t, map[string]string{
		"runtime-config": "batch/v1=true,apiregistration.k8s.io/v1=true,api/all=true,api/v1=true,v1/pods=true,api/legacy=false",
		"feature-gates":  "PodLevelResources=true",
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCoreIsFoundByAFile(t *testing.T) {
	write := func(servers ...string) (path string) {
		path = filepath.Join(t.TempDir(), "backends.yaml")
		b := addresses.Backends{
			Core: addresses.Replicas{Servers: servers}, Extensions: addresses.Replicas{Servers: []string{"https://127.0.0.1:1"}},
		}
		if err := b.Write(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	completed, err := complete(t, map[string]string{"core-servers": "", "backends-file": write("https://127.0.0.1:6444", "https://127.0.0.1:6445")})
	if err != nil {
		t.Fatal(err)
	}
	if len(completed.CoreURLs) != 2 || completed.CoreURLs[1].Host != "127.0.0.1:6445" || completed.Backends == nil {
		t.Errorf("servers of core: %v of %v", completed.CoreURLs, completed.Backends)
	}
	for _, test := range []struct {
		name, path, list, want string
	}{
		{"a list too", write("https://127.0.0.1:6444"), "https://127.0.0.1:6444", "--backends-file takes the place of --core-servers"},
		{"no file", filepath.Join(t.TempDir(), "missing"), "", "--backends-file: cannot read"},
		{"a name", write("dns:///core:6444"), "", `--backends-file: servers of core: "dns:///core:6444" is not of the form https://host:port`},
	} {
		_, err := complete(t, map[string]string{"core-servers": test.list, "backends-file": test.path})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestCompleteRefuses(t *testing.T) {
	tests := []struct {
		name, flag, value string
		// want is a part of the error.
		want string
	}{
		{"no server of core", "core-servers", "", "--core-servers: required"},
		{"a server of core without TLS", "core-servers", "http://core", `"http://core" is not of the form https://host:port`},
		{"a server of core with a path", "core-servers", "https://core/x", "is not of the form"},
		{"a server of core that is no URL", "core-servers", "://", "--core-servers"},
		{"no etcd", "etcd-servers", "", "--etcd-servers must be specified"},
		{"no service CA", "service-ca-file", "", "--service-ca-file: required"},
		{"an admission plugin for built-in resources", "enable-admission-plugins", "LimitRanger", "--enable-admission-plugins: LimitRanger does not belong here but to core"},
		{"that it is off", "disable-admission-plugins", "ServiceAccount", "--disable-admission-plugins: ServiceAccount does not belong here but to core"},
		{"an unknown admission plugin", "enable-admission-plugins", "Nope", `enable-admission-plugins plugin "Nope" is unknown`},
		{"an unknown group", "runtime-config", "nope.io/v1=true", "unknown api groups"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := complete(t, map[string]string{test.flag: test.value})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
