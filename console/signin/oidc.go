// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/pages"
)

const (
	// loginCookie joins the way back from the issuer to the way there. The way back comes from another site, so SameSite is Lax.
	loginCookie = "__Host-tripod-console-login"
	// loginTimeout is how long a user has at the issuer.
	loginTimeout = 10 * time.Minute
	// issuerTimeout bounds a request to the issuer.
	issuerTimeout = 10 * time.Second
	// A token is refreshed maxEarly before its end, or in the last quarter of its time. After a failure, the next try is after refreshRetry.
	maxEarly     = time.Minute
	refreshRetry = 5 * time.Second
)

// OIDC are the options of an OpenID Connect issuer whose tokens the API server accepts.
type OIDC struct {
	IssuerURL, ClientID string
	// ClientSecretFile has the secret of the client, if the issuer wants one. It is read for each login.
	ClientSecretFile string
	// CAFile has the authorities of the issuer's certificate. Without it, those of the system count.
	CAFile string
	// Scopes are asked for besides openid. Some issuers refresh tokens only with offline_access.
	Scopes []string
}

func (o *OIDC) validate() (errs []error) {
	if o.IssuerURL == "" {
		if o.ClientID+o.ClientSecretFile+o.CAFile != "" || len(o.Scopes) > 0 {
			errs = append(errs, errors.New("--oidc-issuer-url is needed with the other flags of OIDC"))
		}
		return errs
	}
	if parsed, err := url.Parse(o.IssuerURL); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		errs = append(errs, fmt.Errorf("--oidc-issuer-url %q is not a URL with https", o.IssuerURL))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("--oidc-client-id is needed with --oidc-issuer-url"))
	}
	return errs
}

// issuer is an OpenID Connect issuer.
type issuer struct {
	OIDC
	client *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
}

func newIssuer(options OIDC) (*issuer, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if options.CAFile != "" {
		authorities, err := os.ReadFile(options.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--oidc-ca-file: %s has no certificate", options.CAFile)
		}
	}
	return &issuer{OIDC: options, client: &http.Client{
		Transport: transport, Timeout: issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// flow is what a login or a refresh needs of the issuer.
type flow struct {
	oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// flow asks the issuer for its endpoints the first time, so that the console starts without it. Host is that of the console.
func (i *issuer) flow(ctx context.Context, host string) (*flow, error) {
	i.mu.Lock()
	provider := i.provider
	i.mu.Unlock()
	if provider == nil {
		var err error
		if provider, err = oidc.NewProvider(ctx, i.IssuerURL); err != nil {
			return nil, err
		}
		i.mu.Lock()
		i.provider = provider
		i.mu.Unlock()
	}
	f := &flow{verifier: provider.Verifier(&oidc.Config{ClientID: i.ClientID}), Config: oauth2.Config{
		ClientID: i.ClientID, Endpoint: provider.Endpoint(), RedirectURL: "https://" + host + callback,
		Scopes: append([]string{oidc.ScopeOpenID}, i.Scopes...),
	}}
	f.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if i.ClientSecretFile == "" {
		return f, nil
	}
	// The library would try both ways. If the issuer refuses a code, it would report the error of the second way, about the client.
	var metadata struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, err
	}
	if len(metadata.Methods) == 0 || slices.Contains(metadata.Methods, "client_secret_basic") {
		f.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	secret, err := os.ReadFile(i.ClientSecretFile)
	f.ClientSecret = strings.TrimSpace(string(secret))
	return f, err
}

// context has the client of the issuer in it, as its libraries want it.
func (i *issuer) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, i.client)
}

// login is what a browser keeps in a cookie while its user is at the issuer.
type login struct{ state, nonce, verifier string }

func (l login) String() string { return strings.Join([]string{l.state, l.nonce, l.verifier}, ".") }

func loginOf(req *http.Request) (l login, found bool) {
	given, err := req.Cookie(loginCookie)
	if err != nil {
		return login{}, false
	}
	parts := strings.Split(given.Value, ".")
	if len(parts) != 3 || parts[0] == "" {
		return login{}, false
	}
	return login{parts[0], parts[1], parts[2]}, true
}

func setLogin(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: maxAge,
	})
}

// toIssuer sends a browser to the issuer.
func (g *Guard) toIssuer(w http.ResponseWriter, req *http.Request) {
	f, err := g.issuer.flow(g.issuer.context(req.Context()), req.Host)
	if err != nil {
		g.issuerFailed(w, err)
		return
	}
	l := login{newSecret(), newSecret(), oauth2.GenerateVerifier()}
	setLogin(w, l.String(), int(loginTimeout.Seconds()))
	http.Redirect(w, req, f.AuthCodeURL(l.state, oidc.Nonce(l.nonce), oauth2.S256ChallengeOption(l.verifier)), http.StatusSeeOther)
}

// fromIssuer begins a session for a browser that comes back.
func (g *Guard) fromIssuer(w http.ResponseWriter, req *http.Request) {
	l, found := loginOf(req)
	setLogin(w, "", -1)
	values := req.URL.Query()
	if !found || subtle.ConstantTimeCompare([]byte(values.Get("state")), []byte(l.state)) != 1 {
		g.askToSignIn(w, http.StatusForbidden, "This browser has not begun to sign in, or it took too long: try again.")
		return
	}
	if refused := values.Get("error"); refused != "" {
		g.askToSignIn(w, http.StatusForbidden, "The issuer has refused: "+refused[:min(len(refused), 100)])
		return
	}
	if !g.mayTry(w, req) {
		return
	}
	credential, err := g.issuer.exchange(req.Context(), req.Host, values.Get("code"), l)
	if err != nil {
		g.attempts.failed(networkOf(req.RemoteAddr))
		g.issuerFailed(w, err)
		return
	}
	if g.begin(w, req, credential) {
		pages.Enter(w) // a redirect would come without the cookie of the session
	}
}

func (g *Guard) issuerFailed(w http.ResponseWriter, err error) {
	klog.ErrorS(err, "A user could not sign in by OIDC", "issuer", g.issuer.IssuerURL)
	g.askToSignIn(w, http.StatusBadGateway, "The issuer has not signed you in. The log of the console says why.")
}

// refreshed is a token of an issuer, which the console refreshes while the session goes on.
type refreshed struct {
	issuer  *issuer
	subject string

	mu      sync.Mutex
	token   string
	refresh string
	// renewAt is when to refresh the token next.
	renewAt time.Time
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
	r := &refreshed{issuer: i}
	id, err := r.take(ctx, f, answer)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.nonce)) != 1 {
		return nil, errors.New("the token is not of this login: its nonce is another one")
	}
	return r, nil
}

// take replaces the token by that of an answer, if it is of the same user.
func (r *refreshed) take(ctx context.Context, f *flow, answer *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := answer.Extra("id_token").(string)
	if !isToken(raw) {
		return nil, errors.New("the issuer has answered without an id_token")
	}
	id, err := f.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if r.subject != "" && id.Subject != r.subject {
		return nil, errors.New("the refreshed token is of another user")
	}
	r.subject, r.token, r.refresh = id.Subject, raw, answer.RefreshToken
	left := time.Until(id.Expiry)
	r.renewAt = time.Now().Add(left - min(maxEarly, left/4))
	return id, nil
}

// Token returns a token that is still valid, as far as the issuer refreshes it. The API server decides.
func (r *refreshed) Token(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refresh == "" || time.Now().Before(r.renewAt) {
		return r.token, nil
	}
	if err := r.renew(ctx); err != nil {
		klog.ErrorS(err, "A token was not refreshed", "issuer", r.issuer.IssuerURL)
		r.renewAt = time.Now().Add(refreshRetry)
		if failed := (*oauth2.RetrieveError)(nil); errors.As(err, &failed) && failed.ErrorCode == "invalid_grant" {
			r.refresh = "" // the issuer will not change its mind
		}
	}
	return r.token, nil
}

// renew goes on for a reader who leaves the page: the issuer may accept a refresh token only once.
func (r *refreshed) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(r.issuer.context(context.WithoutCancel(ctx)), issuerTimeout)
	defer cancel()
	f, err := r.issuer.flow(ctx, "")
	if err != nil {
		return err
	}
	answer, err := f.TokenSource(ctx, &oauth2.Token{RefreshToken: r.refresh}).Token()
	if err != nil {
		return err
	}
	_, err = r.take(ctx, f, answer)
	return err
}
