// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/tls"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPair uses only certificates and keys that crypto/tls uses too, and describes whatever is in a bundle.
func FuzzPair(f *testing.F) {
	store, err := Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := store.Authority("ca", "ca"); err != nil {
		f.Fatal(err)
	}
	certificate, err := os.ReadFile(store.CertFile("ca"))
	if err != nil {
		f.Fatal(err)
	}
	key, err := os.ReadFile(store.KeyFile("ca"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(certificate, key)
	f.Add(append([]byte("text\n"), certificate...), append(key, certificate...))
	f.Add(key, certificate)
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		if _, _, err := store.decode("ca", Pair{Certificate: certificate, Key: key}); err == nil {
			_, err := tls.X509KeyPair(certificate, key)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(Describe("ca", certificate)), bytes.Count(certificate, []byte("-----BEGIN")))
	})
}
