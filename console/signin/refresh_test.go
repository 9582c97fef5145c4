// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
	"github.com/tripod-k8s/tripod/console/pages"
	"github.com/tripod-k8s/tripod/console/signin/issuertest"
)

// inMemory is an issuer without a network, for the clock of synctest.
func inMemory(t *testing.T, serve *issuertest.Issuer) *issuer {
	serve.URL = "https://login.example.com"
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(issuertest.ClientSecret), 0o600))
	i, err := newIssuer(OIDC{IssuerURL: serve.URL, ClientID: issuertest.ClientID, ClientSecretFile: secret})
	require.NoError(t, err)
	i.client.Transport = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		serve.ServeHTTP(answer, req)
		return answer.Result(), nil
	})
	return i
}

// signedIn returns what a session has after a login.
func signedIn(t *testing.T, i *issuer, serve *issuertest.Issuer) *refreshed {
	verifier := oauth2.GenerateVerifier()
	serve.Codes["code"] = map[string]any{
		"nonce": "n", "challenge": oauth2.S256ChallengeFromVerifier(verifier), "redirect": "https://console.example.com" + callback,
	}
	r, err := i.exchange(t.Context(), "console.example.com", "code", login{"s", "n", verifier})
	require.NoError(t, err)
	return r
}

func TestTokensAreRefreshed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serve := issuertest.New(t)
		serve.Lifetime = 10 * time.Minute
		r := signedIn(t, inMemory(t, serve), serve)
		token := func() string {
			token, err := r.Token(t.Context())
			require.NoError(t, err)
			synctest.Wait() // while the token is valid, it is refreshed in the background
			return token
		}
		first := token()
		time.Sleep(8 * time.Minute)
		assert.Equal(t, first, token(), "it is valid")
		time.Sleep(time.Minute + time.Second)
		assert.Equal(t, first, token(), "no page waits for the issuer")
		second := token()
		assert.NotEqual(t, first, second)
		assert.Equal(t, second, token())
		assert.Equal(t, []string{"authorization_code", "refresh_token"}, serve.Asked)

		time.Sleep(9*time.Minute + time.Second)
		serve.Refuses = "server_error"
		assert.Equal(t, second, token(), "it is still valid")
		assert.Equal(t, second, token())
		assert.Len(t, serve.Asked, 3, "the issuer gets a pause")
		serve.Refuses = ""
		time.Sleep(time.Minute)
		third := token()
		assert.NotEqual(t, second, third, "the next try succeeds, for which the page has waited: the token was not valid any more")

		time.Sleep(9*time.Minute + time.Second)
		serve.User = "tom"
		token()
		serve.User = "ann"
		asked := len(serve.Asked)
		time.Sleep(time.Hour)
		assert.Equal(t, third, token(), "a token of another user is not taken: the API server will refuse the one before, which ends the session")
		assert.Len(t, serve.Asked, asked, "and the console does not ask again")
	})
}

// TestAnIssuerThatNeverRefreshesEndsTheSession has the token expire. The API server then refuses it.
func TestAnIssuerThatNeverRefreshesEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*issuertest.Issuer){
		"revoked":                 func(i *issuertest.Issuer) { i.Refuses = "invalid_grant" },
		"not for this client":     func(i *issuertest.Issuer) { i.Refuses = "unauthorized_client" },
		"of no kind that it has":  func(i *issuertest.Issuer) { i.Refuses = "unsupported_grant_type" },
		"without another one":     func(i *issuertest.Issuer) { i.Omits = true },
		"with a token of another": func(i *issuertest.Issuer) { i.User = "tom" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				serve := issuertest.New(t)
				r := signedIn(t, inMemory(t, serve), serve)
				first, err := r.Token(t.Context())
				require.NoError(t, err)
				change(serve)
				for range 2 {
					time.Sleep(2 * time.Hour)
					kept, err := r.Token(t.Context())
					require.NoError(t, err)
					assert.Equal(t, first, kept)
				}
				assert.Len(t, serve.Asked, 2, "one login and one refresh")
			})
		})
	}
}

// TestAnOutageOfTheIssuerEndsNoSession has the token of a session expire while the issuer fails.
func TestAnOutageOfTheIssuerEndsNoSession(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	verifier := oauth2.GenerateVerifier()
	c.issuer.Set(func() {
		c.issuer.Codes["code"] = map[string]any{
			"nonce": "n", "challenge": oauth2.S256ChallengeFromVerifier(verifier), "redirect": c.server.URL + callback,
		}
	})
	r, err := c.guard.issuer.exchange(t.Context(), c.url().Host, "code", login{"s", "n", verifier})
	require.NoError(t, err)
	k := keyOf("secret")
	hub, err := clientOf(c.guard.options.API, r, func() { c.guard.sessions.end(k) })
	require.NoError(t, err)
	c.guard.sessions.begin(k, "oidc:ann", c.url().Host, pages.New(hub, pages.Options{SignOut: true}))
	b := c.browser()
	b.client.Jar.SetCookies(c.url(), []*http.Cookie{{Name: cookie, Value: "secret", Path: "/", Secure: true}})
	expire := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ends, r.renewAt = time.Unix(1, 0), time.Unix(1, 0)
	}
	require.Equal(t, "oidc:ann", b.reads())
	c.api.tokens()

	c.issuer.Set(func() { c.issuer.Refuses = "temporarily_unavailable" })
	expire()
	for _, path := range []string{"/?q=settings", "/?q=kind:Pod", "/explain?verb=get&target=deployments.apps/front", "/saved"} {
		response, body := b.get(path)
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode, "%s: %s", path, body)
		assert.Contains(t, body, "The issuer does not refresh the token of this session. Try again", path)
		assert.NotContains(t, body, "does not answer", "the API server was not asked")
	}
	assert.Empty(t, c.api.tokens(), "the API server would refuse the token, which would end the session")

	c.issuer.Set(func() { c.issuer.Refuses = "" })
	expire() // else the issuer has a pause
	assert.Equal(t, "oidc:ann", b.reads())
}

// TestARefreshTokenIsKeptIfTheRestFails has an issuer whose refresh tokens work once sign with a key that it does not publish yet.
func TestARefreshTokenIsKeptIfTheRestFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serve := issuertest.New(t)
		i := inMemory(t, serve)
		r := signedIn(t, i, serve)
		first, err := r.Token(t.Context())
		require.NoError(t, err)
		for name, change := range map[string]func(claims map[string]any){
			"another audience": func(claims map[string]any) { claims["aud"] = "other" },
			"no subject":       func(claims map[string]any) { claims["sub"] = "" },
		} {
			serve.Change = change
			time.Sleep(2 * time.Hour)
			_, err := r.Token(t.Context())
			require.ErrorIs(t, err, errNotRefreshed, name)
		}
		serve.Change = func(map[string]any) {}
		time.Sleep(refreshRetry)
		second, err := r.Token(t.Context())
		require.NoError(t, err)
		assert.NotEqual(t, first, second)
	})
}

// TestAPageWaitsForATokenThatIsNotValid has an issuer that does not answer.
func TestAPageWaitsForATokenThatIsNotValid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serve := issuertest.New(t)
		i := inMemory(t, serve)
		r := signedIn(t, i, serve)
		first, err := r.Token(t.Context())
		require.NoError(t, err)
		asked, away := 0, errors.New("the issuer is away")
		i.client.Transport = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			asked++
			<-req.Context().Done()
			return nil, away
		})
		time.Sleep(59*time.Minute + time.Second)
		began := time.Now()
		for range 5 {
			kept, err := r.Token(t.Context())
			require.NoError(t, err)
			assert.Equal(t, first, kept)
		}
		assert.Zero(t, time.Since(began), "the token is valid, so no page waits")
		time.Sleep(issuerTimeout)
		assert.Equal(t, 1, asked, "one request for all")
		time.Sleep(time.Hour)
		began = time.Now()
		for range 3 {
			_, err = r.Token(t.Context())
			require.ErrorIs(t, err, errNotRefreshed, "the API server would refuse the token, and so end the session")
		}
		assert.Equal(t, issuerTimeout, time.Since(began), "and the issuer gets a pause")
	})
}
