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
	"golang.org/x/sync/singleflight"

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
	// The issuer is asked for its endpoints and keys again after metadataAge, and after a failure after metadataRetry.
	metadataAge   = time.Hour
	metadataRetry = 5 * time.Second
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
	// asking are requests for the metadata, of which one is made at a time.
	asking singleflight.Group

	mu sync.Mutex
	// provider is the last metadata, and failure why none is known. They count until askAt.
	provider *oidc.Provider
	failure  error
	askAt    time.Time
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

// metadata returns the endpoints and keys of the issuer. The first login asks for them, so that the console starts without the issuer.
// Later, they are renewed in the background.
func (i *issuer) metadata(ctx context.Context) (*oidc.Provider, error) {
	i.mu.Lock()
	known, failure, current := i.provider, i.failure, time.Now().Before(i.askAt)
	i.mu.Unlock()
	if current {
		return known, failure
	}
	asked := i.asking.DoChan("", func() (any, error) { return i.ask() })
	if known != nil {
		return known, nil
	}
	select {
	case answer := <-asked:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return answer.Val.(*oidc.Provider), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks the issuer for its metadata. It does not depend on the request that needs it first, because others wait for it, too.
func (i *issuer) ask() (*oidc.Provider, error) {
	ctx, cancel := context.WithTimeout(i.context(context.Background()), issuerTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, i.IssuerURL)
	if err == nil {
		err = checkEndpoints(provider)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		i.provider, i.failure, i.askAt = provider, nil, time.Now().Add(metadataAge)
		return provider, nil
	}
	i.askAt = time.Now().Add(metadataRetry)
	if i.provider == nil {
		i.failure = err
	} else {
		klog.ErrorS(err, "The metadata of the issuer was not renewed", "issuer", i.IssuerURL)
	}
	return nil, err
}

// checkEndpoints returns an error if the browser, the code or the keys would go by a connection without TLS.
func checkEndpoints(of *oidc.Provider) error {
	var metadata map[string]any
	if err := of.Claims(&metadata); err != nil {
		return err
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		endpoint, _ := metadata[name].(string)
		if parsed, err := url.Parse(endpoint); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return fmt.Errorf("the metadata of the issuer has the %s %q, which is not a URL with https", name, endpoint)
		}
	}
	return nil
}

// flow is what a login or a refresh needs of the issuer.
type flow struct {
	oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// flow returns that of the issuer. Host is that of the console.
func (i *issuer) flow(ctx context.Context, host string) (*flow, error) {
	provider, err := i.metadata(ctx)
	if err != nil {
		return nil, err
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
	f, err := g.issuer.flow(req.Context(), req.Host)
	if err != nil {
		g.issuerFailed(w, req, err)
		return
	}
	g.endOf(req) // the way back, which comes from another site, has no cookie of the session
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
	g.try(w, req, g.byIssuer, func(ctx context.Context) (failed bool) {
		credential, err := g.issuer.exchange(ctx, req.Host, values.Get("code"), l)
		if err != nil {
			g.issuerFailed(w, req, err)
			return true
		}
		entered, failed := g.begin(w, req.WithContext(ctx), "OIDC", credential)
		if entered {
			pages.Enter(w) // a redirect would come without the cookie of the session
		}
		return failed
	})
}

func (g *Guard) issuerFailed(w http.ResponseWriter, req *http.Request, err error) {
	g.refuse(req, err, "OIDC")
	g.askToSignIn(w, http.StatusBadGateway, "The issuer has not signed you in. The log of the console says why.")
}
