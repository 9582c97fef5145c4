// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package issuertest has an OpenID Connect issuer for tests. It signs its one user in without a question.
package issuertest

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
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The client that the issuer knows.
const (
	ClientID     = "console"
	ClientSecret = "secret-of-the-client"
)

// Issuer is an OpenID Connect issuer at which a user is signed in already. Set changes its fields while it serves.
type Issuer struct {
	// URL is where it serves, which it must know before.
	URL string
	key *ecdsa.PrivateKey
	t   require.TestingT

	mu   sync.Mutex
	User string
	// Lifetime is that of tokens, and Change changes their claims.
	Lifetime time.Duration
	Change   func(map[string]any)
	// Signer is another key than the one that is published, if it is set.
	Signer *ecdsa.PrivateKey
	// Refuses is the error of the token endpoint, if it is set.
	Refuses string
	// Denies is the error with which the browser comes back in place of a code, if it is set.
	Denies string
	// Omits is whether refreshes have no id_token.
	Omits bool
	// Endpoints are those that it publishes instead of its own.
	Endpoints map[string]string
	// Methods are how a client proves that it has the secret.
	Methods []string
	// Codes and Refreshes are tokens that work once, with the claims of the id_token. A code has the challenge of its login.
	Codes, Refreshes map[string]map[string]any
	// Asked are the grants that were asked for, and issued are all secrets that left the issuer.
	Asked, issued []string
}

// New returns an issuer, which needs a URL before it serves. A request that no client should send fails the test.
func New(t require.TestingT) *Issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &Issuer{
		t: t, key: key, User: "ann", Lifetime: time.Hour, Change: func(map[string]any) {},
		Codes: map[string]map[string]any{}, Refreshes: map[string]map[string]any{},
	}
}

// Set changes the issuer.
func (i *Issuer) Set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// Secrets returns what must be in no log.
func (i *Issuer) Secrets() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.issued)
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch req.URL.Path {
	case "/.well-known/openid-configuration":
		metadata := map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "token_endpoint_auth_methods_supported": i.Methods,
		}
		for name, endpoint := range i.Endpoints {
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
func (i *Issuer) authorize(w http.ResponseWriter, req *http.Request) {
	given := req.URL.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": ClientID, "scope": "openid groups", "code_challenge_method": "S256",
	} {
		assert.Equal(i.t, want, given.Get(name), name)
	}
	assert.Greater(i.t, len(given.Get("state")), 40)
	assert.Greater(i.t, len(given.Get("nonce")), 40)
	if i.Denies != "" {
		back := url.Values{"error": {i.Denies}, "state": {given.Get("state")}}
		http.Redirect(w, req, given.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
		return
	}
	code := rand.Text()
	i.Codes[code] = map[string]any{"nonce": given.Get("nonce"), "challenge": given.Get("code_challenge"), "redirect": given.Get("redirect_uri")}
	i.issued = append(i.issued, code)
	back := url.Values{"code": {code}, "state": {given.Get("state")}}
	http.Redirect(w, req, given.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// grant answers a request for tokens.
func (i *Issuer) grant(req *http.Request) (code int, answer any) {
	id, secret, byHeader := req.BasicAuth()
	if !byHeader {
		id, secret = req.PostFormValue("client_id"), req.PostFormValue("client_secret")
	}
	if id != ClientID || secret != ClientSecret || byHeader == slices.Contains(i.Methods, "client_secret_post") {
		return http.StatusUnauthorized, map[string]string{"error": "invalid_client"}
	}
	kind := req.PostFormValue("grant_type")
	i.Asked = append(i.Asked, kind)
	if i.Refuses != "" {
		return http.StatusBadRequest, map[string]string{"error": i.Refuses}
	}
	all, key := i.Codes, req.PostFormValue("code")
	if kind == "refresh_token" {
		all, key = i.Refreshes, req.PostFormValue("refresh_token")
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
	refresh := rand.Text()
	i.Refreshes[refresh] = map[string]any{"nonce": of["nonce"]}
	token := i.sign(of["nonce"])
	i.issued = append(i.issued, refresh, token)
	if i.Omits {
		return http.StatusOK, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "refresh_token": refresh}
	}
	return http.StatusOK, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "refresh_token": refresh, "id_token": token}
}

func (i *Issuer) sign(nonce any) string {
	claims := map[string]any{
		"iss": i.URL, "sub": i.User, "aud": ClientID, "nonce": nonce, "exp": time.Now().Add(i.Lifetime).Unix(), "iat": time.Now().Unix(), "jti": rand.Text(),
	}
	i.Change(claims)
	key := i.key
	if i.Signer != nil {
		key = i.Signer
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	require.NoError(i.t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(i.t, err)
	return token
}

// UserOf returns the user of an id_token, as an API server would that trusts the issuer.
func UserOf(token string) (string, error) {
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
