// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSomebodyWhoIsOneStepBehindIsUnderstood: through a rotation, what is shown now is trusted by a service that still has the files of the
// step before, and the other way round.
func TestSomebodyWhoIsOneStepBehindIsUnderstood(t *testing.T) {
	store := openStore(t)
	leaf := Leaf{CommonName: "leaf", Client: true, Server: true}
	type files struct{ trusted, shown []byte }
	now := func() files {
		if _, err := authority(t, store).Ensure("leaf", leaf); err != nil {
			t.Fatal(err)
		}
		return files{contents(t, store.CertFile("ca")), contents(t, store.CertFile("leaf"))}
	}
	first := now()
	before := first
	for _, want := range []Rotation{NewTrusted, NewIssues, NotRotating} {
		got, err := authority(t, store).Rotate()
		if err != nil || got != want {
			t.Fatalf("the rotation is at %q, want %q: %v", got, want, err)
		}
		if state, err := authority(t, store).Rotation(); err != nil || state != want {
			t.Errorf("the rotation is reported at %q, want %q: %v", state, want, err)
		}
		after := now()
		if !verifies(before.trusted, after.shown) {
			t.Errorf("%s: who trusts as before does not trust the certificate", want)
		}
		if !verifies(after.trusted, before.shown) {
			t.Errorf("%s: the certificate of before is not trusted", want)
		}
		if again := now(); !slices.Equal(again.shown, after.shown) {
			t.Errorf("%s: the certificate is issued twice", want)
		}
		before = after
	}
	if verifies(before.trusted, first.shown) {
		t.Error("the first authority is still trusted")
	}
	if len(certificates(before.trusted)) != 1 {
		t.Errorf("%d authorities are trusted at the end", len(certificates(before.trusted)))
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(store.CertFile("ca")), "*next*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, err = %v", left, err)
	}
}

func verifies(trusted, shown []byte) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	_, err := certificates(shown)[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

func TestInterruptedStepIsTakenAgain(t *testing.T) {
	store := openStore(t)
	old := contents(t, authority(t, store).File())
	if _, err := authority(t, store).Rotate(); err != nil {
		t.Fatal(err)
	}
	// As if the new authority had been made, and the process had ended before it reported that.
	require.NoError(t, os.WriteFile(store.CertFile("ca"), old, 0o600))
	if got, err := authority(t, store).Rotate(); err != nil || got != NewTrusted {
		t.Errorf("the rotation is at %q: %v", got, err)
	}
	if got := certificates(contents(t, store.CertFile("ca"))); len(got) != 2 {
		t.Errorf("%d authorities are trusted", len(got))
	}
}

func TestWhatOthersTrustStays(t *testing.T) {
	store, other := openStore(t), openStore(t)
	external, err := other.Authority("other", "another-ca")
	require.NoError(t, err)
	file := authority(t, store).File()
	require.NoError(t, os.WriteFile(file, slices.Concat(contents(t, file), contents(t, external.File())), 0o600))
	if state, err := authority(t, store).Rotation(); err != nil || state != NotRotating {
		t.Errorf("the rotation is reported at %q: %v", state, err)
	}
	for range 3 {
		if _, err := authority(t, store).Rotate(); err != nil {
			t.Fatal(err)
		}
		if !contains(contents(t, file), external.Certificate()) {
			t.Error("the other authority is no longer trusted")
		}
	}
	if got := certificates(contents(t, file)); len(got) != 2 {
		t.Errorf("%d authorities are trusted at the end", len(got))
	}
}

func TestAuthorityOfAnotherIsNotRotated(t *testing.T) {
	store := openStore(t)
	root := authority(t, store)
	key, err := newKey()
	require.NoError(t, err)
	cert, err := store.sign("sub", &x509.Certificate{NotAfter: root.cert.NotAfter, IsCA: true}, root.cert, key.Public(), root.key)
	require.NoError(t, err)
	encoded, err := encodeKey(key)
	require.NoError(t, err)
	require.NoError(t, store.storage.Write("sub", Pair{Certificate: cert, Key: encoded}))
	sub, err := store.Authority("sub", "sub")
	require.NoError(t, err)
	if _, err := sub.Rotate(); err == nil {
		t.Error("no error")
	}
}
