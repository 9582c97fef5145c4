// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509/pkix"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptionsFromFlags(t *testing.T) {
	var o Options
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	err := fs.Parse([]string{"--service-ca-file=ca", "--service-cert-file=cert", "--service-key-file=key"})
	require.NoError(t, err)
	if want := (Options{CAFile: "ca", CertFile: "cert", KeyFile: "key"}); o != want {
		t.Errorf("got %+v, want %+v", o, want)
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
		{"good files", Options{CAFile: caFile, CertFile: certFile, KeyFile: keyFile}, nil},
		{"nothing given", Options{}, []string{"--service-ca-file: required", "--service-cert-file: required", "--service-key-file: required"}},
		{"missing CA file", Options{CAFile: "/nonexistent", CertFile: certFile, KeyFile: keyFile}, []string{"--service-ca-file: open /nonexistent"}},
		{"CA file without certificates", Options{CAFile: garbage, CertFile: certFile, KeyFile: keyFile}, []string{"--service-ca-file: error reading"}},
		{"missing certificate", Options{CAFile: caFile, CertFile: "/nonexistent", KeyFile: keyFile}, []string{"--service-cert-file: open /nonexistent"}},
		{"missing key", Options{CAFile: caFile, CertFile: certFile, KeyFile: "/nonexistent"}, []string{"--service-key-file: open /nonexistent"}},
		{"certificate is not one", Options{CAFile: caFile, CertFile: garbage, KeyFile: keyFile}, []string{"--service-cert-file"}},
		{"key of another certificate", Options{CAFile: caFile, CertFile: certFile, KeyFile: otherKeyFile}, []string{"private key does not match public key"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := test.options.Validate()
			require.Len(t, errs, len(test.want), "errors")
			for i, err := range errs {
				assert.ErrorContains(t, err, test.want[i])
			}
		})
	}
}
