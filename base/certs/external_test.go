// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// externalAuthority makes an authority as kubeadm does, with an RSA key in PKCS #1, and returns its files.
func externalAuthority(t *testing.T, isCA bool, end time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: end.Add(-200 * 24 * time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: isCA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	require.NoError(t, os.WriteFile(certFile, encodeCertificate(&x509.Certificate{Raw: der}), 0o600))
	encoded := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	require.NoError(t, os.WriteFile(keyFile, encoded, 0o600))
	return certFile, keyFile
}

func TestAnExternalAuthorityIssuesAndStaysAsItIs(t *testing.T) {
	end := time.Now().Add(100 * 24 * time.Hour)
	certFile, keyFile := externalAuthority(t, true, end)
	before := append(contents(t, certFile), contents(t, keyFile)...)
	store := openStore(t)
	leaf := Leaf{CommonName: "tripod-core", Client: true}
	for _, want := range []bool{true, false} {
		ca, err := store.ExternalAuthority(certFile, keyFile)
		require.NoError(t, err)
		issued, err := ca.Ensure("etcd-core", leaf)
		require.NoError(t, err)
		assert.Equal(t, want, issued)
	}
	block, _ := pem.Decode(contents(t, store.CertFile("etcd-core")))
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(contents(t, certFile))
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	assert.WithinDuration(t, end, cert.NotAfter, time.Second, "it does not outlive its authority")
	assert.Equal(t, before, append(contents(t, certFile), contents(t, keyFile)...))

	// Another authority takes the place of this one.
	otherCert, otherKey := externalAuthority(t, true, end)
	ca, err := store.ExternalAuthority(otherCert, otherKey)
	require.NoError(t, err)
	issued, err := ca.Ensure("etcd-core", leaf)
	require.NoError(t, err)
	assert.True(t, issued)
}

func TestWhatIsNoExternalAuthority(t *testing.T) {
	end := time.Now().Add(time.Hour)
	store := openStore(t)
	good, goodKey := externalAuthority(t, true, end)
	leaf, leafKey := externalAuthority(t, false, end)
	old, oldKey := externalAuthority(t, true, time.Now().Add(-time.Hour))
	for want, files := range map[string][2]string{
		"is not a certificate authority":              {leaf, leafKey},
		"expired on":                                  {old, oldKey},
		"private key does not match":                  {good, leafKey},
		"cannot read certificate authority":           {good + ".missing", goodKey},
		"missing: no such file or directory":          {good, goodKey + ".missing"},
		"cannot use certificate authority " + goodKey: {goodKey, goodKey},
	} {
		_, err := store.ExternalAuthority(files[0], files[1])
		assert.ErrorContains(t, err, want)
	}
}
