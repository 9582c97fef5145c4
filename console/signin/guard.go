// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/pages"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

// Paths besides those of pages. Livez answers probes, which do not name the host.
const (
	Livez    = "/livez"
	signIn   = "/sign-in"
	signOut  = "/sign-out"
	byOIDC   = signIn + "/oidc"
	callback = byOIDC + "/callback"
)

const (
	// Browsers take a cookie with the prefix __Host- only by TLS and for the whole host, and let no other host set it.
	cookie = "__Host-tripod-console"
	// maxForm bounds the body of a request.
	maxForm = 4 * maxToken
	// maxSignIns is how many browsers sign in at once, maxPages how many pages are made at once, and maxOfSession those of a session.
	maxSignIns   = 8
	maxPages     = 16
	maxOfSession = 4
)

// Options are those of a console for a team.
type Options struct {
	// Hosts are where browsers reach the console, with a port unless it is 443.
	Hosts []string
	// API reaches the API server. Credentials in it are not used.
	API *rest.Config
	// OIDC is the issuer at which users can sign in, if it has a URL.
	OIDC OIDC
	// A session ends after IdleTimeout without requests, and after Lifetime.
	IdleTimeout, Lifetime time.Duration
}

// Validate returns every problem of the options.
func (o *Options) Validate() (errs []error) {
	if len(o.Hosts) == 0 {
		errs = append(errs, errors.New("--host is needed: the name by which browsers reach the console"))
	}
	for _, host := range o.Hosts {
		if parsed, err := url.Parse("https://" + host); err != nil || host == "" || parsed.Host != host {
			errs = append(errs, fmt.Errorf("--host %q is not a host, or a host and a port", host))
		}
	}
	if server, err := url.Parse(o.API.Host); err != nil || server.Scheme != "https" || server.Host == "" {
		errs = append(errs, fmt.Errorf("--server %q is not a URL with https: the console sends tokens of users there", o.API.Host))
	}
	if o.IdleTimeout <= 0 || o.Lifetime <= 0 {
		errs = append(errs, errors.New("--session-idle-timeout and --session-lifetime must be positive"))
	}
	return append(errs, o.OIDC.validate()...)
}

// Guard signs users in, and serves pages to them.
type Guard struct {
	options  Options
	issuer   *issuer
	sessions *sessions
	attempts attempts
	// pages are the places of the pages of all sessions.
	pages access.Places
	mux   *http.ServeMux
}

// New returns the guard of a console.
func New(options Options) (*Guard, error) {
	if err := errors.Join(options.Validate()...); err != nil {
		return nil, err
	}
	if _, err := clientOf(options.API, pasted(""), func() {}); err != nil {
		return nil, fmt.Errorf("--certificate-authority: %w", err)
	}
	g := &Guard{
		options: options, sessions: newSessions(options.IdleTimeout, options.Lifetime),
		pages: access.NewPlaces(maxPages), mux: http.NewServeMux(),
	}
	for path, asset := range pages.Assets() {
		g.mux.Handle("GET "+path, asset)
	}
	signIns := access.NewPlaces(maxSignIns)
	g.mux.HandleFunc("GET "+signIn, func(w http.ResponseWriter, _ *http.Request) { g.askToSignIn(w, http.StatusOK, "") })
	g.mux.Handle("POST "+signIn, signIns.Bound(http.HandlerFunc(g.signInByToken)))
	g.mux.HandleFunc("POST "+signOut, g.signOut)
	g.mux.HandleFunc("GET /", g.servePage)
	if options.OIDC.IssuerURL == "" {
		return g, nil
	}
	var err error
	if g.issuer, err = newIssuer(options.OIDC); err != nil {
		return nil, err
	}
	g.mux.Handle("GET "+byOIDC, signIns.Bound(http.HandlerFunc(g.toIssuer)))
	g.mux.Handle("GET "+callback, signIns.Bound(http.HandlerFunc(g.fromIssuer)))
	return g, nil
}

func (g *Guard) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == Livez {
		io.WriteString(w, "ok") //nolint:errcheck // the client is gone
		return
	}
	access.SetHeaders(w.Header())
	// With no-referrer, browsers would send forms without their origin.
	w.Header().Set("Referrer-Policy", "same-origin")
	origin := "https://" + req.Host
	switch {
	case !slices.Contains(g.options.Hosts, req.Host):
		access.Refuse(w, http.StatusMisdirectedRequest, "This is not the address of the console.")
	case len(req.URL.RawQuery) > access.MaxQuery:
		access.Refuse(w, http.StatusRequestURITooLong, "The parameters are too long.")
	case req.Method == http.MethodPost && req.Header.Get("Origin") != origin, req.URL.Path != callback && !access.SameOrigin(req, origin):
		if req.Method == http.MethodGet && req.URL.Path == "/" {
			pages.Enter(w) // a link of another site
			return
		}
		access.Refuse(w, http.StatusForbidden, "Another site has sent this request. Open the console in a tab of its own.")
	default:
		if host := (&url.URL{Host: req.Host}).Hostname(); host != "localhost" { // other servers there have no TLS
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		req.Body = http.MaxBytesReader(w, req.Body, maxForm)
		g.mux.ServeHTTP(w, req)
	}
}

// servePage serves a page of the session that the cookie of a request names.
func (g *Guard) servePage(w http.ResponseWriter, req *http.Request) {
	if secret, err := req.Cookie(cookie); err == nil {
		if session := g.sessions.use(keyOf(secret.Value)); session != nil {
			session.pages.ServeHTTP(w, req)
			return
		}
	}
	http.Redirect(w, req, signIn, http.StatusSeeOther)
}

// askToSignIn shows the page on which a user signs in, and why the attempt before has failed.
func (g *Guard) askToSignIn(w http.ResponseWriter, code int, message string) {
	pages.SignIn{
		Server: g.options.API.Host, Issuer: g.options.OIDC.IssuerURL, Message: message,
		Lifetime: pages.Duration(g.options.Lifetime), Idle: pages.Duration(g.options.IdleTimeout),
	}.Write(w, code)
}

// signInByToken begins a session with the token in a form.
func (g *Guard) signInByToken(w http.ResponseWriter, req *http.Request) {
	if err := req.ParseForm(); err != nil {
		g.askToSignIn(w, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	token := strings.TrimSpace(req.PostForm.Get("token"))
	if !isToken(token) {
		g.askToSignIn(w, http.StatusBadRequest, "This cannot be a bearer token.")
		return
	}
	if g.mayTry(w, req) && g.begin(w, req, pasted(token)) {
		http.Redirect(w, req, "/", http.StatusSeeOther)
	}
}

// mayTry returns whether a client may ask the API server or the issuer. Otherwise it answers.
func (g *Guard) mayTry(w http.ResponseWriter, req *http.Request) bool {
	if g.attempts.allowed(networkOf(req.RemoteAddr)) {
		return true
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(failurePause.Seconds())))
	g.askToSignIn(w, http.StatusTooManyRequests, "Too many attempts have failed: try again later.")
	return false
}

// begin begins a session if the API server accepts a credential. Otherwise it answers, and returns false.
func (g *Guard) begin(w http.ResponseWriter, req *http.Request, with credential) bool {
	secret := newSecret()
	k := keyOf(secret)
	hub, err := clientOf(g.options.API, with, func() { g.sessions.end(k) })
	if err != nil {
		g.askToSignIn(w, http.StatusInternalServerError, "The console cannot read the API server.")
		return false
	}
	name, err := hub.Reader(req.Context())
	refused := (*searchclient.Error)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusUnauthorized, err == nil && (name == "" || name == user.Anonymous):
		g.attempts.failed(networkOf(req.RemoteAddr))
		g.askToSignIn(w, http.StatusUnauthorized, "The API server does not accept this token.")
		return false
	case err != nil:
		klog.ErrorS(err, "The API server has not said whose token it is")
		g.askToSignIn(w, http.StatusBadGateway, "The API server does not say whose token it is: try again later.")
		return false
	}
	own := access.NewPlaces(maxOfSession).Bound(g.pages.Bound(pages.New(hub, pages.Options{SignOut: true})))
	if err := g.sessions.begin(k, name, own); err != nil {
		g.askToSignIn(w, http.StatusServiceUnavailable, err.Error())
		return false
	}
	klog.InfoS("A user has signed in", "user", name, "client", req.RemoteAddr)
	g.endOf(req)
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: secret, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	return true
}

// signOut ends the session of a browser.
func (g *Guard) signOut(w http.ResponseWriter, req *http.Request) {
	g.endOf(req)
	http.SetCookie(w, &http.Cookie{Name: cookie, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	http.Redirect(w, req, signIn, http.StatusSeeOther)
}

// endOf ends the session that the cookie of a request names.
func (g *Guard) endOf(req *http.Request) {
	if secret, err := req.Cookie(cookie); err == nil {
		g.sessions.end(keyOf(secret.Value))
	}
}
