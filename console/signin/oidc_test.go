// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/console/signin/issuertest"
)

// toIssuer goes to the issuer, and returns the address to which it sends the browser back.
func (b *browser) toIssuer() string {
	b.t.Helper()
	response, body := b.get(byOIDC, "Sec-Fetch-Site", "same-origin")
	require.Equal(b.t, http.StatusSeeOther, response.StatusCode, body)
	require.Len(b.t, response.Cookies(), 1)
	given := response.Cookies()[0]
	assert.Equal(b.t, loginCookie, given.Name)
	assert.True(b.t, given.Secure && given.HttpOnly && given.MaxAge == 600 && given.Path == "/" && given.Domain == "")
	assert.Equal(b.t, http.SameSiteLaxMode, given.SameSite, "the way back is from another site")
	response, body = b.get(response.Header.Get("Location"))
	require.Equal(b.t, http.StatusSeeOther, response.StatusCode, body)
	return response.Header.Get("Location")
}

func TestUsersSignInAtTheIssuer(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	b := c.browser()
	_, body := b.get(signIn)
	assert.Contains(t, body, "Sign in at "+c.issuer.URL)
	back := b.toIssuer()
	assert.True(t, strings.HasPrefix(back, c.server.URL+callback+"?"))
	response, body := b.get(back, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	assert.Equal(t, "0; url=/", response.Header.Get("Refresh"), "a redirect would come without the cookie")
	var names []string
	for _, given := range response.Cookies() {
		names = append(names, given.Name)
		assert.Equal(t, given.Name == cookie, given.SameSite == http.SameSiteStrictMode)
		assert.Equal(t, given.Name == loginCookie, given.MaxAge < 0, "a login has one way back")
	}
	assert.ElementsMatch(t, []string{cookie, loginCookie}, names)
	c.api.tokens()
	assert.Equal(t, "oidc:ann", b.reads())
	for _, token := range c.api.tokens() {
		assert.Contains(t, c.issuer.Secrets(), token, "the API server gets the token of the issuer")
	}

	for name, again := range map[string]*browser{"the same browser": b, "another one": c.browser()} {
		response, _ = again.get(back)
		assert.Equal(t, http.StatusForbidden, response.StatusCode, name)
	}
	c.issuer.Set(func() { c.issuer.User = "tom" })
	tom := c.browser()
	tom.get(tom.toIssuer())
	assert.Equal(t, "oidc:tom", tom.reads())
	assert.Equal(t, "oidc:ann", b.reads())
}

func TestTheClientProvesItselfAsTheIssuerWants(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{nil, {"client_secret_post", "client_secret_jwt"}, {"private_key_jwt", "client_secret_basic"}} {
		c := newTeam(t)
		c.issuer.Set(func() { c.issuer.Methods = methods })
		b := c.browser()
		b.get(b.toIssuer())
		assert.Equal(t, "oidc:ann", b.reads(), "%v", methods)
		assert.Equal(t, []string{"authorization_code"}, c.issuer.Asked, "%v: once", methods)
	}
}

func TestWhoCannotSignInAtTheIssuer(t *testing.T) {
	t.Parallel()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claim := func(name string, value any) func(*issuertest.Issuer) {
		return func(i *issuertest.Issuer) { i.Change = func(claims map[string]any) { claims[name] = value } }
	}
	with := func(name, value string) func(url.Values) { return func(values url.Values) { values.Set(name, value) } }
	for name, test := range map[string]struct {
		issuer func(*issuertest.Issuer)
		back   func(url.Values)
		want   int
	}{
		"another state":    {nil, with("state", newSecret()), 403},
		"no state":         {nil, with("state", ""), 403},
		"refused":          {nil, with("error", "access_denied<script>"), 403},
		"another code":     {nil, with("code", newSecret()), 502},
		"another nonce":    {claim("nonce", newSecret()), nil, 502},
		"no nonce":         {claim("nonce", ""), nil, 502},
		"another audience": {claim("aud", "other"), nil, 502},
		"another issuer":   {claim("iss", "https://evil.example.com"), nil, 502},
		"an expired token": {claim("exp", time.Now().Add(-time.Hour).Unix()), nil, 502},
		"another key":      {func(i *issuertest.Issuer) { i.Signer = other }, nil, 502},
		"no token":         {func(i *issuertest.Issuer) { i.Refuses = "server_error" }, nil, 502},
		"no subject":       {claim("sub", ""), nil, 502},
		"a user whom the API server does not know": {claim("sub", "stranger"), nil, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTeam(t)
			if test.issuer != nil {
				c.issuer.Set(func() { test.issuer(c.issuer) })
			}
			b := c.browser()
			back, err := url.Parse(b.toIssuer())
			require.NoError(t, err)
			values := back.Query()
			if test.back != nil {
				test.back(values)
			}
			back.RawQuery = values.Encode()
			response, body := b.get(back.String())
			assert.Equal(t, test.want, response.StatusCode, body)
			assert.Contains(t, body, `role="alert"`)
			assert.NotContains(t, body, "<script")
			assert.Empty(t, b.reads())
			assert.Zero(t, c.guard.count())
		})
	}
}

// TestACodeOfAnotherLoginIsRefused has an attacker send a victim back with the attacker's own code, and use the code of a victim.
func TestACodeOfAnotherLoginIsRefused(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	attacker, victim := c.browser(), c.browser()
	stolen, own := victim.toIssuer(), attacker.toIssuer()
	response, _ := victim.get(own)
	assert.Equal(t, http.StatusForbidden, response.StatusCode, "the state is of another browser")
	given, err := url.Parse(stolen)
	require.NoError(t, err)
	mine, err := url.Parse(own)
	require.NoError(t, err)
	mixed := mine.Query()
	mixed.Set("code", given.Query().Get("code"))
	mine.RawQuery = mixed.Encode()
	response, _ = attacker.get(mine.String())
	assert.Equal(t, http.StatusBadGateway, response.StatusCode, "the verifier is of another login")
	assert.Zero(t, c.guard.count())
}

// TestALoginAtTheIssuerEndsTheSession has a user of a browser sign in as another one. The way back from the issuer has no cookie.
func TestALoginAtTheIssuerEndsTheSession(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	back := b.toIssuer()
	assert.Zero(t, c.guard.count())
	b.get(back)
	assert.Equal(t, 1, c.guard.count())
	assert.Equal(t, "oidc:ann", b.reads())
}

func TestEndpointsOfTheIssuerNeedTLS(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		for _, endpoint := range []string{"http://login.example.com/", "//login.example.com", ""} {
			serve := issuertest.New(t)
			serve.Endpoints = map[string]string{name: endpoint}
			_, err := inMemory(t, serve).flow(t.Context(), host)
			assert.ErrorContains(t, err, fmt.Sprintf("the %s %q, which is not a URL with https", name, endpoint))
		}
	}
}

func TestTheMetadataOfTheIssuerIsAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serve := issuertest.New(t)
		i := inMemory(t, serve)
		answers, asked := make(chan error), 0
		next := i.client.Transport
		i.client.Transport = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			asked++
			if err := <-answers; err != nil {
				return nil, err
			}
			return next.RoundTrip(req)
		})
		failed := errors.New("the issuer is away")
		logins := func(answer error) {
			t.Helper()
			done := make(chan error, 5)
			for range cap(done) {
				go func() {
					_, err := i.flow(t.Context(), host)
					done <- err
				}()
			}
			synctest.Wait()
			answers <- answer
			for range cap(done) {
				require.ErrorIs(t, <-done, answer)
			}
		}
		logins(failed)
		assert.Equal(t, 1, asked, "one request for all")
		_, err := i.flow(t.Context(), host)
		require.ErrorIs(t, err, failed)
		assert.Equal(t, 1, asked, "the issuer gets a pause")
		time.Sleep(metadataRetry)
		logins(nil)
		assert.Equal(t, 2, asked)

		for _, answer := range []error{failed, nil} {
			time.Sleep(metadataAge)
			_, err = i.flow(t.Context(), host)
			require.NoError(t, err, "no login waits while the metadata is renewed, or if that fails")
			answers <- answer
			synctest.Wait()
		}
		assert.Equal(t, 4, asked)
	})
}

// logged returns the log of a test that is not parallel, because there is one log.
func logged(t *testing.T) *strings.Builder {
	var log strings.Builder
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("INFO", &log) // with all that is worse
	t.Cleanup(func() {
		klog.SetOutput(os.Stderr)
		klog.LogToStderr(true)
	})
	return &log
}

// TestNoSecretIsLogged looks into the log after all that is logged. It is not parallel, because there is one log.
func TestNoSecretIsLogged(t *testing.T) {
	log := logged(t)
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	b.reads()
	b.send(http.MethodPost, signIn, url.Values{"token": {"wrong-token-of-ann"}})
	b.get(b.toIssuer())
	b.reads()
	b.get(strings.Replace(b.toIssuer(), "code=", "code=X", 1))
	c.issuer.Set(func() { c.issuer.Change = func(claims map[string]any) { claims["aud"] = "other" } })
	b.get(b.toIssuer())
	c.api.server.Close()
	b.send(http.MethodPost, signIn, url.Values{"token": {tokenOfTom}})
	klog.Flush()
	for _, line := range []string{"A user has signed in", "A user could not sign in", `by="OIDC"`, "invalid_grant", "the API server has not said"} {
		assert.Contains(t, log.String(), line)
	}
	secrets := append(c.issuer.Secrets(), tokenOfAnn, tokenOfTom, "wrong-token-of-ann", issuertest.ClientSecret)
	for _, kept := range b.client.Jar.Cookies(c.url()) {
		secrets = append(secrets, kept.Value)
	}
	for _, secret := range secrets {
		assert.NotContains(t, log.String(), secret)
	}
}
