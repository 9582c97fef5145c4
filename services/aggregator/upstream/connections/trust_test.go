// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/tls"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
)

// TestAFileThatIsNotValidKeepsNoOther changes a CA beside a key that does not fit, and a pair beside a CA that is none.
func TestAFileThatIsNotValidKeepsNoOther(t *testing.T) {
	pki, other := connectionstest.NewPKI(t), connectionstest.NewPKI(t)
	trust, err := NewTrust("core", Files{CA: pki.CAFile, Cert: pki.CertFile, Key: pki.KeyFile})
	require.NoError(t, err)
	look := func() error {
		if trust.watch.Look() {
			return trust.read()
		}
		return nil
	}
	put := func(path string, content []byte) { require.NoError(t, os.WriteFile(path, content, 0o600)) }
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	trusts := func(ca []byte) {
		t.Helper()
		want, err := cert.NewPoolFromBytes(ca)
		require.NoError(t, err)
		assert.True(t, want.Equal(trust.current.Load().config.RootCAs), "it trusts other CAs")
	}
	presents := func() []byte {
		presented, err := trust.current.Load().config.GetClientCertificate(&tls.CertificateRequestInfo{})
		require.NoError(t, err)
		return presented.Certificate[0]
	}
	first, pair, fits := trust.current.Load(), presents(), read(pki.KeyFile)

	put(pki.KeyFile, read(other.KeyFile))
	put(pki.CAFile, read(other.CAFile))
	require.ErrorContains(t, look(), pki.KeyFile)
	trusts(read(other.CAFile))
	assert.Equal(t, pair, presents())

	put(pki.CAFile, []byte("none"))
	put(pki.CertFile, read(other.CertFile))
	require.ErrorContains(t, look(), pki.CAFile)
	trusts(read(other.CAFile))
	assert.NotEqual(t, pair, presents())

	second := trust.current.Load()
	assert.NotSame(t, first, second)
	put(pki.KeyFile, nil)
	require.Error(t, look())
	put(pki.KeyFile, read(other.KeyFile))
	require.Error(t, look(), "the CA is none")
	assert.Same(t, second, trust.current.Load(), "what came back as it was makes connections old")

	put(pki.KeyFile, fits)
	_, err = NewTrust("core", Files{CA: other.CAFile, Cert: pki.CertFile, Key: pki.KeyFile})
	require.ErrorContains(t, err, pki.KeyFile, "at the start, all must be valid")
}
