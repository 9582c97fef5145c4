// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/console/searchclient"
)

// credential is what a session has of its user.
type credential interface {
	// Token returns the bearer token of the next request. A *searchclient.Error takes the place of the answer.
	Token(context.Context) (string, error)
}

// pasted is a token that a user has pasted.
type pasted string

func (p pasted) Token(context.Context) (string, error) { return string(p), nil }

// maxToken bounds a token. API servers read headers of up to 1 MiB, but proxies often no more than this.
const maxToken = 16 << 10

// isToken returns whether a text can be a bearer token in a header.
func isToken(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// clientOf returns a client that reads as the user of a credential. Refused is called when the API server does not accept its token.
func clientOf(api *rest.Config, of credential, refused func()) (*searchclient.Client, error) {
	config := rest.AnonymousClientConfig(api) // no other credentials
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{next, of, refused} })
	return searchclient.New(config)
}

// bearer is a transport that sends the token of a credential.
type bearer struct {
	next    http.RoundTripper
	of      credential
	refused func()
}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.of.Token(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context()) // the one of the caller must stay as it is
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := b.next.RoundTrip(req)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		b.refused()
	}
	return response, err
}
