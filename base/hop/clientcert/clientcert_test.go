// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clientcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
)

// authority is a CA for tests. Its certificate has no end that matters.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	return &authority{certificate: create(t, template, template, key, key), key: key}
}

// issue returns the state of a connection with a client certificate that is good until end.
func (a *authority) issue(t testing.TB, name string, end time.Time) *tls.ConnectionState {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"group"}},
		NotBefore: time.Unix(0, 0), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{create(t, template, a.certificate, newKey(t), a.key)}}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func create(t testing.TB, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate
}

// trust is what is verified with, and counts how often that was asked for.
type trust struct{ options x509.VerifyOptions }

func newTrust(authorities ...*authority) *trust {
	tr := &trust{}
	tr.reload(authorities...)
	return tr
}

func (tr *trust) reload(authorities ...*authority) {
	tr.options = x509.VerifyOptions{Roots: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, a := range authorities {
		tr.options.Roots.AddCert(a.certificate)
	}
}

func (tr *trust) verifyOptions() (x509.VerifyOptions, bool) { return tr.options, true }

func on(connection *tls.ConnectionState) *http.Request {
	return &http.Request{TLS: connection, Header: http.Header{}}
}

// counted is the conversion of Kubernetes, which is called once per verification.
func counted(count *int) requestx509.UserConversion {
	return requestx509.UserConversionFunc(func(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
		*count++
		return requestx509.CommonNameUserConversion(chain)
	})
}

func TestACertificateIsVerifiedOncePerConnection(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	end := time.Now().Add(time.Hour)
	trusted := newTrust(ca)
	verified := 0
	a := NewAuthenticator(trusted.verifyOptions, counted(&verified))
	expect := func(connection *tls.ConnectionState, name string, count int) {
		t.Helper()
		response, ok, err := a.AuthenticateRequest(on(connection))
		got := ""
		if ok {
			got = response.User.GetName()
		}
		if got != name || (name == "") == (err == nil) {
			t.Errorf("got user %q, %v; want %q", got, err, name)
		}
		assert.Equal(t, count, verified, "%d verifications, want %d", verified, count)
	}
	first, second, stranger := ca.issue(t, "first", end), ca.issue(t, "second", end), other.issue(t, "stranger", end)
	expect(first, "first", 1)
	expect(first, "first", 1)
	expect(second, "second", 2)
	expect(first, "first", 2)
	again := *first // another connection with the same certificate
	expect(&again, "first", 3)
	expect(stranger, "", 3)
	expect(stranger, "", 3)

	trusted.reload(other)
	expect(first, "", 3)
	expect(stranger, "stranger", 4)
	trusted.reload(ca, other)
	expect(first, "first", 5)
	expect(stranger, "stranger", 6)
}

func TestACertificateEndsDuringItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		trusted := newTrust(ca)
		connection := ca.issue(t, "jane", time.Now().Add(time.Minute))
		a := NewAuthenticator(trusted.verifyOptions, requestx509.CommonNameUserConversion)
		v := NewVerifier(trusted.verifyOptions, headerrequest.StaticStringSlice{}, anybody)
		for name, auth := range map[string]authenticator.Request{"authenticator": a, "verifier": v} {
			if _, ok, err := auth.AuthenticateRequest(on(connection)); !ok || err != nil {
				t.Errorf("%s: before its end: %v, %v", name, ok, err)
			}
		}
		time.Sleep(time.Minute + time.Second)
		for name, auth := range map[string]authenticator.Request{"authenticator": a, "verifier": v} {
			_, ok, err := auth.AuthenticateRequest(on(connection))
			var invalid x509.CertificateInvalidError
			if ok || !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
				t.Errorf("%s: after its end: %v, %v", name, ok, err)
			}
		}
	})
}

var anybody = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: "anybody"}}, true, nil
})

// names can be reloaded.
type names []string

func (n *names) Value() []string { return *n }

func TestVerifierFollowsCAsAndNames(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	trusted, allowed := newTrust(ca), &names{"proxy"}
	v := NewVerifier(trusted.verifyOptions, allowed, anybody)
	end := time.Now().Add(time.Hour)
	proxy, stranger := ca.issue(t, "proxy", end), other.issue(t, "proxy", end)
	expect := func(connection *tls.ConnectionState, want bool) {
		t.Helper()
		for range 2 {
			if _, ok, err := v.AuthenticateRequest(on(connection)); ok != want || (err == nil) != want {
				t.Errorf("got %v, %v; want %v", ok, err, want)
			}
		}
	}
	expect(proxy, true)
	expect(stranger, false)
	*allowed = names{"another"}
	expect(proxy, false)
	*allowed = names{}
	expect(proxy, true)
	expect(stranger, false)
	trusted.reload(other)
	expect(proxy, false)
	expect(stranger, true)
}

func TestNoCertificateIsNoOpinion(t *testing.T) {
	trusted := newTrust()
	for name, auth := range map[string]authenticator.Request{
		"authenticator": NewAuthenticator(trusted.verifyOptions, requestx509.CommonNameUserConversion),
		"verifier":      NewVerifier(trusted.verifyOptions, headerrequest.StaticStringSlice{}, anybody),
	} {
		for _, connection := range []*tls.ConnectionState{nil, {}} {
			if response, ok, err := auth.AuthenticateRequest(on(connection)); response != nil || ok || err != nil {
				t.Errorf("%s: got %v, %v, %v", name, response, ok, err)
			}
		}
	}
}

func TestWhatIsKnownEndsWithTheConnection(t *testing.T) {
	var known perConnection[int]
	connection := &tls.ConnectionState{}
	value := 1
	known.set(connection, &value)
	known.set(connection, &value)
	if known.get(connection) != &value {
		t.Fatal("it is not known")
	}
	runtime.KeepAlive(connection)
	left := func() (count int) {
		known.values.Range(func(any, any) bool { count++; return true })
		return count
	}
	for deadline := time.Now().Add(10 * time.Second); left() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it is still known")
		}
		runtime.GC()
	}
}

func BenchmarkKnownConnection(b *testing.B) {
	ca := newAuthority(b, "ca")
	a := NewAuthenticator(newTrust(ca).verifyOptions, requestx509.CommonNameUserConversion)
	req := on(ca.issue(b, "jane", time.Now().Add(time.Hour)))
	for b.Loop() {
		if _, ok, err := a.AuthenticateRequest(req); !ok {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewConnection(b *testing.B) {
	ca := newAuthority(b, "ca")
	a := NewAuthenticator(newTrust(ca).verifyOptions, requestx509.CommonNameUserConversion)
	connection := ca.issue(b, "jane", time.Now().Add(time.Hour))
	for b.Loop() {
		next := *connection
		if _, ok, err := a.AuthenticateRequest(on(&next)); !ok {
			b.Fatal(err)
		}
	}
}
