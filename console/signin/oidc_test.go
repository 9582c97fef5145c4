// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/roundtrip"
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
	assert.Contains(t, body, "Sign in at "+c.issuer.url)
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
		assert.Contains(t, c.issuer.secrets(), token, "the API server gets the token of the issuer")
	}

	for name, again := range map[string]*browser{"the same browser": b, "another one": c.browser()} {
		response, _ = again.get(back)
		assert.Equal(t, http.StatusForbidden, response.StatusCode, name)
	}
	c.issuer.set(func() { c.issuer.user = "tom" })
	tom := c.browser()
	tom.get(tom.toIssuer())
	assert.Equal(t, "oidc:tom", tom.reads())
	assert.Equal(t, "oidc:ann", b.reads())
}

func TestTheClientProvesItselfAsTheIssuerWants(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{nil, {"client_secret_post", "client_secret_jwt"}, {"private_key_jwt", "client_secret_basic"}} {
		c := newTeam(t)
		c.issuer.set(func() { c.issuer.methods = methods })
		b := c.browser()
		b.get(b.toIssuer())
		assert.Equal(t, "oidc:ann", b.reads(), "%v", methods)
		assert.Equal(t, []string{"authorization_code"}, c.issuer.asked, "%v: once", methods)
	}
}

func TestWhoCannotSignInAtTheIssuer(t *testing.T) {
	t.Parallel()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claim := func(name string, value any) func(*testIssuer) {
		return func(i *testIssuer) { i.change = func(claims map[string]any) { claims[name] = value } }
	}
	with := func(name, value string) func(url.Values) { return func(values url.Values) { values.Set(name, value) } }
	for name, test := range map[string]struct {
		issuer func(*testIssuer)
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
		"another key":      {func(i *testIssuer) { i.signer = other }, nil, 502},
		"no token":         {func(i *testIssuer) { i.refuses = "server_error" }, nil, 502},
		"a user whom the API server does not know": {claim("sub", "stranger"), nil, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTeam(t)
			if test.issuer != nil {
				c.issuer.set(func() { test.issuer(c.issuer) })
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

// inMemory is an issuer without a network, for the clock of synctest.
func inMemory(t *testing.T, serve *testIssuer) *issuer {
	serve.url = "https://login.example.com"
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(clientSecret), 0o600))
	i, err := newIssuer(OIDC{IssuerURL: serve.url, ClientID: clientID, ClientSecretFile: secret})
	require.NoError(t, err)
	i.client.Transport = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		serve.ServeHTTP(answer, req)
		return answer.Result(), nil
	})
	return i
}

// signedIn returns what a session has after a login.
func signedIn(t *testing.T, i *issuer, serve *testIssuer) *refreshed {
	verifier := oauth2.GenerateVerifier()
	serve.codes["code"] = map[string]any{
		"nonce": "n", "challenge": oauth2.S256ChallengeFromVerifier(verifier), "redirect": "https://console.example.com" + callback,
	}
	r, err := i.exchange(t.Context(), "console.example.com", "code", login{"s", "n", verifier})
	require.NoError(t, err)
	return r
}

func TestTokensAreRefreshed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serve := newTestIssuer(t)
		serve.lifetime = 10 * time.Minute
		r := signedIn(t, inMemory(t, serve), serve)
		token := func() string {
			token, err := r.Token(t.Context())
			require.NoError(t, err)
			return token
		}
		first := token()
		time.Sleep(8 * time.Minute)
		assert.Equal(t, first, token(), "it is valid")
		time.Sleep(time.Minute + time.Second)
		second := token()
		assert.NotEqual(t, first, second)
		assert.Equal(t, second, token())
		assert.Equal(t, []string{"authorization_code", "refresh_token"}, serve.asked)

		time.Sleep(9*time.Minute + time.Second)
		serve.refuses = "server_error"
		assert.Equal(t, second, token(), "it is still valid")
		assert.Equal(t, second, token())
		assert.Len(t, serve.asked, 3, "the issuer gets a pause")
		serve.refuses = ""
		time.Sleep(refreshRetry)
		third := token()
		assert.NotEqual(t, second, third, "the next try succeeds")

		time.Sleep(9*time.Minute + time.Second)
		serve.user = "tom"
		assert.Equal(t, third, token(), "a token of another user is not taken")
		serve.user = "ann"
		time.Sleep(refreshRetry)
		assert.Equal(t, third, token(), "that refresh token was used")
		asked := len(serve.asked)
		time.Sleep(time.Hour)
		assert.Equal(t, third, token(), "the API server will refuse it, which ends the session")
		assert.Len(t, serve.asked, asked, "the issuer has refused for good")
	})
}

// TestNoSecretIsLogged looks into the log after all that is logged. It is not parallel, because there is one log.
func TestNoSecretIsLogged(t *testing.T) {
	var log strings.Builder
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	t.Cleanup(func() {
		klog.SetOutput(os.Stderr)
		klog.LogToStderr(true)
	})
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	b.reads()
	b.send(http.MethodPost, signIn, url.Values{"token": {"wrong-token-of-ann"}})
	b.get(b.toIssuer())
	b.reads()
	b.get(strings.Replace(b.toIssuer(), "code=", "code=X", 1))
	c.issuer.set(func() { c.issuer.change = func(claims map[string]any) { claims["aud"] = "other" } })
	b.get(b.toIssuer())
	c.api.server.Close()
	b.send(http.MethodPost, signIn, url.Values{"token": {tokenOfTom}})
	klog.Flush()
	for _, line := range []string{"A user has signed in", "A user could not sign in by OIDC", "invalid_grant", "The API server has not said"} {
		assert.Contains(t, log.String(), line)
	}
	secrets := append(c.issuer.secrets(), tokenOfAnn, tokenOfTom, "wrong-token-of-ann", clientSecret)
	for _, kept := range b.client.Jar.Cookies(c.url()) {
		secrets = append(secrets, kept.Value)
	}
	for _, secret := range secrets {
		assert.NotContains(t, log.String(), secret)
	}
}
