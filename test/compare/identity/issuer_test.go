// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer is an OpenID Connect provider: it has a discovery document, keys, and signs any token of a test.
type issuer struct {
	server    *httptest.Server
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

const keyID = "key-1"

func newIssuer(algorithm jose.SignatureAlgorithm) (*issuer, error) {
	i := &issuer{algorithm: algorithm}
	var err error
	if i.key, err = newKey(algorithm); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{
			"issuer": i.url(), "jwks_uri": i.url() + "/keys", "authorization_endpoint": i.url() + "/auth",
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{string(algorithm)},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: i.key.Public(), KeyID: keyID, Algorithm: string(algorithm), Use: "sig"},
		}})
	})
	i.server = httptest.NewTLSServer(mux)
	return i, nil
}

func newKey(algorithm jose.SignatureAlgorithm) (crypto.Signer, error) {
	switch algorithm {
	case jose.RS256:
		return rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return nil, fmt.Errorf("no keys for %s", algorithm)
}

func (i *issuer) url() string { return i.server.URL }

// ca returns the CA of the issuer, PEM.
func (i *issuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw}))
}

// token returns a token of the issuer for an hour, with claims that add to or replace those that tokens have.
func (i *issuer) token(claims map[string]any) (string, error) {
	all := map[string]any{
		"iss": i.url(), "sub": "jane", "aud": "tripod-test",
		"iat": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(all, claims)
	return sign(i.algorithm, i.key, keyID, all)
}

// sign returns a JWT.
func sign(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		return "", fmt.Errorf("cannot sign: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("cannot encode claims: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("cannot sign: %w", err)
	}
	return signed.CompactSerialize()
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client has gone when this fails
}
