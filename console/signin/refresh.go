// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/searchclient"
)

// refreshed is a token of an issuer, which the console refreshes while the session goes on.
type refreshed struct {
	issuer  *issuer
	subject string
	// renewals are refreshes, of which one is made at a time.
	renewals singleflight.Group

	mu      sync.Mutex
	token   string
	refresh string
	// renewAt is when to refresh the token next, and ends when it is not valid any more.
	renewAt, ends time.Time
}

// exchange gets the token of a login.
func (i *issuer) exchange(ctx context.Context, host, code string, l login) (*refreshed, error) {
	ctx = i.context(ctx)
	f, err := i.flow(ctx, host)
	if err != nil {
		return nil, err
	}
	answer, err := f.Exchange(ctx, code, oauth2.VerifierOption(l.verifier))
	if err != nil {
		return nil, err
	}
	id, raw, err := f.verify(ctx, answer)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.nonce)) != 1 {
		return nil, errors.New("the token is not of this login: its nonce is another one")
	}
	r := &refreshed{issuer: i, subject: id.Subject, refresh: answer.RefreshToken}
	r.take(id, raw)
	return r, nil
}

// verify returns the id_token of an answer, parsed and as text.
func (f *flow) verify(ctx context.Context, answer *oauth2.Token) (*oidc.IDToken, string, error) {
	raw, _ := answer.Extra("id_token").(string)
	if !isToken(raw) {
		return nil, "", errNoToken
	}
	id, err := f.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, "", err
	}
	if id.Subject == "" {
		return nil, "", errors.New("the id_token names no user: its claim sub is empty")
	}
	return id, raw, nil
}

// take replaces the token. The caller holds the lock, or has the only reference.
func (r *refreshed) take(id *oidc.IDToken, raw string) {
	left := time.Until(id.Expiry)
	r.token, r.ends, r.renewAt = raw, id.Expiry, time.Now().Add(left-min(maxEarly, left/4))
}

// errNotRefreshed is not about the token: the API server does not get it, and the session goes on.
var errNotRefreshed = &searchclient.Error{
	Code:    http.StatusServiceUnavailable,
	Message: "The issuer does not refresh the token of this session. Try again, or sign out and in again.",
}

// Token returns a token that is still valid, as far as the issuer refreshes it. While the token is valid, no page waits for the issuer. If
// the issuer has failed for a while, Token returns errNotRefreshed. If it will never refresh the token, the API server refuses that.
func (r *refreshed) Token(ctx context.Context) (string, error) {
	token, renew, usable := r.current()
	if renew {
		renewed := r.renewals.DoChan("", func() (any, error) {
			r.renew()
			return nil, nil // the token is in r
		})
		if usable {
			return token, nil
		}
		select {
		case <-renewed:
			token, _, usable = r.current()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if !usable {
		return "", errNotRefreshed
	}
	return token, nil
}

// current returns the token, whether to renew it, and whether to use it: it is valid, or there will be no other one.
func (r *refreshed) current() (token string, renew, usable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return r.token, r.refresh != "" && !now.Before(r.renewAt), r.refresh == "" || now.Before(r.ends)
}

// renew refreshes the token. It goes on for a reader who leaves the page: the issuer may accept a refresh token only once.
func (r *refreshed) renew() {
	if _, renew, _ := r.current(); !renew {
		return // another request has just done so
	}
	ctx, cancel := context.WithTimeout(r.issuer.context(context.Background()), issuerTimeout)
	defer cancel()
	err := r.ask(ctx)
	if err == nil {
		return
	}
	klog.ErrorS(err, "A token was not refreshed", "issuer", r.issuer.IssuerURL)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewAt = time.Now().Add(refreshRetry)
	failed := (*oauth2.RetrieveError)(nil)
	errors.As(err, &failed)
	if errors.Is(err, errOtherUser) || errors.Is(err, errNoToken) || failed != nil && slices.Contains(finalErrors, failed.ErrorCode) {
		r.refresh = "" // the issuer will not change its mind
	}
}

var (
	errOtherUser = errors.New("the refreshed token is of another user")
	errNoToken   = errors.New("the issuer has answered without an id_token") // some never refresh it
	// finalErrors are those of RFC 6749, section 5.2, after which the same refresh token does not work later either.
	finalErrors = []string{"invalid_grant", "unauthorized_client", "unsupported_grant_type"}
)

// ask asks the issuer for another token.
func (r *refreshed) ask(ctx context.Context) error {
	f, err := r.issuer.flow(ctx, "")
	if err != nil {
		return err
	}
	r.mu.Lock()
	refresh := r.refresh
	r.mu.Unlock()
	answer, err := f.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.refresh = answer.RefreshToken // the one before may have been for one use, also if this answer is refused
	r.mu.Unlock()
	id, raw, err := f.verify(ctx, answer)
	if err != nil {
		return err
	}
	if id.Subject != r.subject {
		return errOtherUser
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(id, raw)
	return nil
}
