// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509/pkix"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptionsFromFlags(t *testing.T) {
	var o Options
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	err := fs.Parse([]string{"--service-ca-file=ca", "--service-cert-file=cert", "--service-key-file=key"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Options{CAFile: "ca", CertFile: "cert", KeyFile: "key"}); o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
}

func TestServicesHaveACAOfTheirOwn(t *testing.T) {
	service, client := newAuthority(t), newAuthority(t)
	both := writeFile(t, "both.crt", append(certificatePEM(client.certificate.Raw), certificatePEM(service.certificate.Raw)...))
	options := Options{CAFile: service.file(t)}
	for name, test := range map[string]struct {
		file   string
		shared bool
	}{
		"none": {"", false}, "missing": {"/nonexistent", false}, "another": {client.file(t), false},
		"the same": {service.file(t), true}, "the same and another": {both, true},
	} {
		if errs := options.ValidateApart("client-ca-file", test.file); (len(errs) > 0) != test.shared {
			t.Errorf("%s: errors are %v", name, errs)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	ca := newAuthority(t)
	certificate := ca.issue(t, pkix.Name{CommonName: Core})
	caFile := ca.file(t)
	certFile := writeFile(t, "tls.crt", certificatePEM(certificate.Certificate[0]))
	keyFile := writeFile(t, "tls.key", keyPEM(t, certificate))
	otherKeyFile := writeFile(t, "other.key", keyPEM(t, ca.issue(t, pkix.Name{CommonName: Core})))
	garbage := writeFile(t, "garbage", []byte("garbage"))

	tests := []struct {
		name    string
		options Options
		// want are parts of the errors, in order.
		want []string
	}{
		{"good files", Options{caFile, certFile, keyFile}, nil},
		{"nothing given", Options{}, []string{"--service-ca-file: required", "--service-cert-file: required", "--service-key-file: required"}},
		{"missing CA file", Options{"/nonexistent", certFile, keyFile}, []string{"--service-ca-file: open /nonexistent"}},
		{"CA file without certificates", Options{garbage, certFile, keyFile}, []string{"--service-ca-file: error reading"}},
		{"missing certificate", Options{caFile, "/nonexistent", keyFile}, []string{"--service-cert-file: open /nonexistent"}},
		{"missing key", Options{caFile, certFile, "/nonexistent"}, []string{"--service-key-file: open /nonexistent"}},
		{"certificate is not one", Options{caFile, garbage, keyFile}, []string{"--service-cert-file"}},
		{"key of another certificate", Options{caFile, certFile, otherKeyFile}, []string{"private key does not match public key"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := test.options.Validate()
			if len(errs) != len(test.want) {
				t.Fatalf("got errors %v, want %d", errs, len(test.want))
			}
			for i, err := range errs {
				if !strings.Contains(err.Error(), test.want[i]) {
					t.Errorf("error %q does not contain %q", err, test.want[i])
				}
			}
		})
	}
}
