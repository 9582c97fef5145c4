// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	clientID     = "console"
	clientSecret = "secret-of-the-client"
)

// testIssuer is an OpenID Connect issuer at which a user is signed in already.
type testIssuer struct {
	t   testing.TB
	url string
	key *ecdsa.PrivateKey

	mu   sync.Mutex
	user string
	// lifetime is that of tokens, and change changes their claims.
	lifetime time.Duration
	change   func(map[string]any)
	// signer is another key than the one that is published, if it is set.
	signer *ecdsa.PrivateKey
	// refuses is the error of the token endpoint, if it is set.
	refuses string
	// omits is whether refreshes have no id_token.
	omits bool
	// endpoints are those that it publishes instead of its own.
	endpoints map[string]string
	// methods are how a client proves that it has the secret.
	methods []string
	// codes and refreshes are tokens that work once, with the claims of the id_token. A code has the challenge of its login.
	codes, refreshes map[string]map[string]any
	// issued are all secrets that left the issuer, and asked are the grants that were asked for.
	issued, asked []string
}

func newTestIssuer(t testing.TB) *testIssuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &testIssuer{
		t: t, key: key, user: "ann", lifetime: time.Hour, change: func(map[string]any) {},
		codes: map[string]map[string]any{}, refreshes: map[string]map[string]any{},
	}
}

// set changes the issuer.
func (i *testIssuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// secrets returns what must be in no log.
func (i *testIssuer) secrets() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.issued)
}

func (i *testIssuer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch req.URL.Path {
	case "/.well-known/openid-configuration":
		metadata := map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token", "jwks_uri": i.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "token_endpoint_auth_methods_supported": i.methods,
		}
		for name, endpoint := range i.endpoints {
			metadata[name] = endpoint
		}
		answer = metadata
	case "/keys":
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}}
	case "/authorize":
		i.authorize(w, req)
		return
	case "/token":
		var code int
		if code, answer = i.grant(req); code != http.StatusOK {
			w.WriteHeader(code)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	assert.NoError(i.t, json.NewEncoder(w).Encode(answer))
}

// authorize sends the browser back with a code.
func (i *testIssuer) authorize(w http.ResponseWriter, req *http.Request) {
	given := req.URL.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": clientID, "scope": "openid groups", "code_challenge_method": "S256",
	} {
		assert.Equal(i.t, want, given.Get(name), name)
	}
	assert.Greater(i.t, len(given.Get("state")), 40)
	assert.Greater(i.t, len(given.Get("nonce")), 40)
	code := newSecret()
	i.codes[code] = map[string]any{"nonce": given.Get("nonce"), "challenge": given.Get("code_challenge"), "redirect": given.Get("redirect_uri")}
	i.issued = append(i.issued, code)
	back := url.Values{"code": {code}, "state": {given.Get("state")}}
	http.Redirect(w, req, given.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// grant answers a request for tokens.
func (i *testIssuer) grant(req *http.Request) (code int, answer any) {
	id, secret, byHeader := req.BasicAuth()
	if !byHeader {
		id, secret = req.PostFormValue("client_id"), req.PostFormValue("client_secret")
	}
	if id != clientID || secret != clientSecret || byHeader == slices.Contains(i.methods, "client_secret_post") {
		return http.StatusUnauthorized, map[string]string{"error": "invalid_client"}
	}
	kind := req.PostFormValue("grant_type")
	i.asked = append(i.asked, kind)
	if i.refuses != "" {
		return http.StatusBadRequest, map[string]string{"error": i.refuses}
	}
	all, key := i.codes, req.PostFormValue("code")
	if kind == "refresh_token" {
		all, key = i.refreshes, req.PostFormValue("refresh_token")
	}
	of := all[key]
	delete(all, key)
	if of == nil {
		return http.StatusBadRequest, map[string]string{"error": "invalid_grant"}
	}
	if kind == "authorization_code" {
		challenge := sha256.Sum256([]byte(req.PostFormValue("code_verifier")))
		if base64.RawURLEncoding.EncodeToString(challenge[:]) != of["challenge"] || req.PostFormValue("redirect_uri") != of["redirect"] {
			return http.StatusBadRequest, map[string]string{"error": "invalid_grant"}
		}
	}
	refresh := newSecret()
	i.refreshes[refresh] = map[string]any{"nonce": of["nonce"]}
	token := i.sign(of["nonce"])
	i.issued = append(i.issued, refresh, token)
	if i.omits {
		return http.StatusOK, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "refresh_token": refresh}
	}
	return http.StatusOK, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "refresh_token": refresh, "id_token": token}
}

func (i *testIssuer) sign(nonce any) string {
	claims := map[string]any{
		"iss": i.url, "sub": i.user, "aud": clientID, "nonce": nonce, "exp": time.Now().Add(i.lifetime).Unix(), "iat": time.Now().Unix(), "jti": newSecret(),
	}
	i.change(claims)
	key := i.key
	if i.signer != nil {
		key = i.signer
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	require.NoError(i.t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(i.t, err)
	return token
}

// userOf returns the user of an id_token, as an API server would that trusts the issuer.
func userOf(token string) (string, error) {
	if strings.Count(token, ".") != 2 {
		return "", fmt.Errorf("%q is not a JWT", token)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return "", err
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Subject == "stranger" {
		return "", errors.Join(err, errors.New("the user is unknown"))
	}
	return "oidc:" + claims.Subject, nil
}
