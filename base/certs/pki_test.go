// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "pki"))
	require.NoError(t, err)
	return store
}

func authority(t *testing.T, store *Store) *Authority {
	t.Helper()
	ca, err := store.Authority("ca", "test-ca")
	require.NoError(t, err)
	return ca
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestAuthorityIsMadeOnceAndKept(t *testing.T) {
	store := openStore(t)
	first := authority(t, store)
	again := authority(t, store)
	if !first.cert.Equal(again.cert) {
		t.Error("the second start has another certificate authority")
	}
}

func TestLeafIsValidForWhatWasAsked(t *testing.T) {
	store := openStore(t)
	ca := authority(t, store)
	leaf := Leaf{CommonName: "server", Organizations: []string{"group"}, DNSNames: []string{"localhost"},
		IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true}
	if issued, err := ca.Ensure("server", leaf); err != nil || !issued {
		t.Fatalf("issued = %v, err = %v", issued, err)
	}
	pair, err := tls.LoadX509KeyPair(store.CertFile("server"), store.KeyFile("server"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(contents(t, ca.File())) {
		t.Fatal("the authority is not PEM")
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		assert.NoError(t, err, "as a server called %s", name)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("as a client: %v", err)
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	store := openStore(t)
	ca := authority(t, store)
	if _, err := ca.Ensure("leaf", Leaf{CommonName: "leaf", Client: true}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, store.EnsureSigningKey("sa"))
	for path, want := range map[string]os.FileMode{
		filepath.Dir(store.KeyFile("ca")): 0o700, store.KeyFile("ca"): 0o600, store.KeyFile("leaf"): 0o600, store.KeyFile("sa"): 0o600,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), "%s has mode", path)
	}
}

func TestLeafIsRenewedWhenItHasTo(t *testing.T) {
	asked := Leaf{CommonName: "server", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true}
	more := func(change func(*Leaf)) Leaf {
		leaf := asked
		change(&leaf)
		return leaf
	}
	for _, tc := range []struct {
		name    string
		later   time.Duration
		before  *Leaf
		asked   Leaf
		renewed bool
	}{
		{name: "the next day", later: 24 * time.Hour, asked: asked},
		{name: "31 days before its end", later: LeafLifetime - 31*24*time.Hour, asked: asked},
		{name: "29 days before its end", later: LeafLifetime - 29*24*time.Hour, asked: asked, renewed: true},
		{name: "after its end", later: LeafLifetime + time.Hour, asked: asked, renewed: true},
		{name: "another name", asked: more(func(l *Leaf) { l.DNSNames = []string{"localhost", "host"} }), renewed: true},
		{name: "another address", asked: more(func(l *Leaf) { l.IPs = []net.IP{net.IPv4(192, 0, 2, 1)} }), renewed: true},
		{name: "fewer addresses", asked: more(func(l *Leaf) { l.IPs = nil }), renewed: true},
		{name: "fewer names", asked: more(func(l *Leaf) { l.DNSNames = nil }), renewed: true},
		{name: "no longer for clients", before: new(more(func(l *Leaf) { l.Client = true })), asked: asked, renewed: true},
		{
			name:   "in another order",
			before: &Leaf{CommonName: "server", DNSNames: []string{"localhost", "host"}, Organizations: []string{"z", "a"}},
			asked:  Leaf{CommonName: "server", DNSNames: []string{"host", "localhost", "host"}, Organizations: []string{"a", "z"}},
		},
		{name: "another user", asked: more(func(l *Leaf) { l.CommonName = "other" }), renewed: true},
		{name: "another group", asked: more(func(l *Leaf) { l.Organizations = []string{"group"} }), renewed: true},
		{name: "for clients too", asked: more(func(l *Leaf) { l.Client = true }), renewed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := openStore(t)
			ca := authority(t, store)
			if _, err := ca.Ensure("server", *cmp.Or(tc.before, &asked)); err != nil {
				t.Fatal(err)
			}
			before := contents(t, store.CertFile("server"))
			store.now = func() time.Time { return time.Now().Add(tc.later) }
			renewed, err := ca.Ensure("server", tc.asked)
			require.NoError(t, err)
			assert.Equal(t, tc.renewed, renewed, "renewed")
			assert.Equal(t, tc.renewed, !bytes.Equal(before, contents(t, store.CertFile("server"))), "file changed")
		})
	}
}

func TestLeafOfAnotherAuthorityIsReplaced(t *testing.T) {
	store := openStore(t)
	leaf := Leaf{CommonName: "leaf", Client: true}
	if _, err := authority(t, store).Ensure("leaf", leaf); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{store.CertFile("ca"), store.KeyFile("ca")} {
		require.NoError(t, os.Remove(path))
	}
	renewed, err := authority(t, store).Ensure("leaf", leaf)
	if err != nil || !renewed {
		t.Errorf("renewed = %v, err = %v", renewed, err)
	}
}

func TestCrashBetweenKeyAndCertificateIsHealed(t *testing.T) {
	store := openStore(t)
	ca := authority(t, store)
	leaf := Leaf{CommonName: "leaf", Client: true}
	if _, err := ca.Ensure("leaf", leaf); err != nil {
		t.Fatal(err)
	}
	other, err := newKey()
	require.NoError(t, err)
	key, err := encodeKey(other)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(store.KeyFile("leaf"), key, 0o600))
	if renewed, err := ca.Ensure("leaf", leaf); err != nil || !renewed {
		t.Errorf("renewed = %v, err = %v", renewed, err)
	}
	if _, err := tls.LoadX509KeyPair(store.CertFile("leaf"), store.KeyFile("leaf")); err != nil {
		t.Error(err)
	}
}

func TestDamagedFilesAreReportedClearly(t *testing.T) {
	overwrite := func(name, content string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			require.NoError(t, os.WriteFile(filepath.Join(string(s.dir), name), []byte(content), 0o600))
		}
	}
	const notDER = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for _, tc := range []struct {
		name   string
		damage func(*testing.T, *Store)
		want   []string
	}{
		{"authority is no PEM", overwrite("ca.crt", "garbage"), []string{"ca.crt", "not PEM"}},
		{"authority is no certificate", overwrite("ca.crt", notDER), []string{"ca.crt", "damaged"}},
		{"key of the authority is no PEM", overwrite("ca.key", ""), []string{"ca.key", "not PEM"}},
		{"leaf is no certificate", overwrite("leaf.crt", notDER), []string{"leaf.crt", "damaged"}},
		{"leaf is unreadable", func(t *testing.T, s *Store) {
			require.NoError(t, os.Remove(s.CertFile("leaf")))
			require.NoError(t, os.Mkdir(s.CertFile("leaf"), 0o700))
		}, []string{"leaf.crt", "cannot read"}},
		{"key of the authority is missing", func(t *testing.T, s *Store) {
			require.NoError(t, os.Remove(s.KeyFile("ca")))
		}, []string{"incomplete", "ca.key"}},
		{"authority has expired", func(_ *testing.T, s *Store) {
			s.now = func() time.Time { return time.Now().Add(AuthorityLifetime + time.Hour) }
		}, []string{"ca.crt", "expired"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := openStore(t)
			leaf := Leaf{CommonName: "leaf", Client: true}
			if _, err := authority(t, store).Ensure("leaf", leaf); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, store)
			ca, err := store.Authority("ca", "test-ca")
			if err == nil {
				_, err = ca.Ensure("leaf", leaf)
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tc.want {
				assert.ErrorContains(t, err, part)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has more than one line", err)
			}
		})
	}
}

func TestSigningKeyIsMadeOnceAndItsPublicKeyRestored(t *testing.T) {
	store := openStore(t)
	require.NoError(t, store.EnsureSigningKey("sa"))
	key, public := contents(t, store.KeyFile("sa")), contents(t, store.PublicKeyFile("sa"))
	require.NoError(t, os.Remove(store.PublicKeyFile("sa")))
	require.NoError(t, store.EnsureSigningKey("sa"))
	if !bytes.Equal(key, contents(t, store.KeyFile("sa"))) || !bytes.Equal(public, contents(t, store.PublicKeyFile("sa"))) {
		t.Error("the key pair changed")
	}
}
