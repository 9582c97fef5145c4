// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clientcert

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
)

// FuzzCertificate authenticates whatever certificates a client may present as k8s.io/apiserver does, the first time and again.
func FuzzCertificate(f *testing.F) {
	ca, other := newAuthority(f, "ca"), newAuthority(f, "other")
	good := ca.issue(f, "jane", time.Unix(1<<33, 0)).PeerCertificates[0].Raw
	f.Add(good, ca.certificate.Raw)
	f.Add(ca.issue(f, "", time.Unix(1, 0)).PeerCertificates[0].Raw, []byte{})
	f.Add(other.issue(f, "jane", time.Unix(1<<33, 0)).PeerCertificates[0].Raw, other.certificate.Raw)
	trusted := newTrust(ca)
	f.Fuzz(func(t *testing.T, leaf, intermediate []byte) {
		connection := &tls.ConnectionState{}
		for _, der := range [][]byte{leaf, intermediate} {
			if certificate, err := x509.ParseCertificate(der); err == nil {
				connection.PeerCertificates = append(connection.PeerCertificates, certificate)
			}
		}
		want, wantOK, wantErr := requestx509.NewDynamic(trusted.verifyOptions, requestx509.CommonNameUserConversion).AuthenticateRequest(on(connection))
		a := NewAuthenticator(trusted.verifyOptions, requestx509.CommonNameUserConversion)
		for range 2 {
			got, ok, err := a.AuthenticateRequest(on(connection))
			require.Equal(t, wantOK, ok)
			require.Equal(t, wantErr == nil, err == nil)
			require.Equal(t, want, got)
		}
	})
}
