// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestClientsOfTheServiceCAAreNoServices replaces the CA for clients by one that the service CA issued. A client of it takes the name of a
// service.
func TestClientsOfTheServiceCAAreNoServices(t *testing.T) {
	fleet := framework.NewFleet(t, framework.FleetOptions{})
	file := func(name string) string { return filepath.Join(fleet.PKI, name) }
	issuer, err := tls.LoadX509KeyPair(file("service-ca.crt"), file("service-ca.key"))
	require.NoError(t, err)
	clientCA := issue(t, &issuer, &x509.Certificate{Subject: pkix.Name{CommonName: "clients"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign})
	mallory := issue(t, clientCA, &x509.Certificate{
		Subject: pkix.Name{CommonName: "system:tripod:extensions"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	mallory.Certificate = append(mallory.Certificate, clientCA.Certificate[0])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, file("ca.crt"), file("service-ca.crt")))
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{*mallory},
	}}
	attack := &http.Client{Transport: transport}
	url := fleet.Replica("core-0").URL + "/api/v1/namespaces"
	framework.Eventually(t, "core takes the client for a service while no CA for clients leads to it", func(ctx context.Context) error {
		return answers(ctx, attack, url, nil, http.StatusOK)
	})
	replace(t, file("ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: clientCA.Certificate[0]}))
	framework.Eventually(t, "a client is no service", func(ctx context.Context) error {
		return answers(ctx, attack, url, nil, http.StatusUnauthorized)
	})
}

// issue returns a certificate from the template, issued by another.
func issue(t *testing.T, issuer *tls.Certificate, template *x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, template.BasicConstraintsValid = big.NewInt(time.Now().UnixNano()), true
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Leaf, key.Public(), issuer.PrivateKey)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
