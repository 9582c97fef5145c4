// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/connections"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/console/pages"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

// Paths besides those of pages.
const (
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
	// maxPages is how many pages are made at once, and waitingPages how many requests wait for that.
	maxPages     = 16
	waitingPages = 48
	// maxToIssuer is how many browsers wait at once for the addresses of the issuer, and waitingToIssuer how many wait for that.
	maxToIssuer     = 4
	waitingToIssuer = 16
	// refusalsLogged is how many failures to sign in the log has at once, and then one every refusalInterval.
	refusalsLogged  = 20
	refusalInterval = time.Second
	// maxFollowers is how many sessions follow services at once, and maxFollowersOfUser how many of a user. A follower takes 3 MiB after 15
	// minutes with 200 replicas that change twice a minute.
	maxFollowers       = 64
	maxFollowersOfUser = 4
	// maxLooks is how many sessions look at once for what completes searches: search counts objects for each, for 20 s at most.
	maxLooks = 8
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
	// byToken and byIssuer are attempts to sign in.
	byToken, byIssuer *attempts
	// refusals bounds what the log has of failures.
	refusals *rate.Limiter
	// pages are the places of the pages of all sessions.
	pages *access.Places
	// followers have room for what sessions follow.
	followers *live.Room
	// looks are places for sessions that look for what completes searches.
	looks *access.Places
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
		byToken: newAttempts(), byIssuer: newAttempts(), refusals: rate.NewLimiter(rate.Every(refusalInterval), refusalsLogged),
		pages: access.NewPlaces(maxPages, waitingPages), followers: live.NewRoom(maxFollowers, maxFollowersOfUser),
		looks: access.NewPlaces(maxLooks, 0), mux: http.NewServeMux(),
	}
	for path, asset := range pages.Assets() {
		g.mux.Handle("GET "+path, asset)
	}
	g.mux.HandleFunc("GET "+signIn, func(w http.ResponseWriter, _ *http.Request) { g.askToSignIn(w, http.StatusOK, "") })
	g.mux.HandleFunc("POST "+signIn, g.signInByToken)
	g.mux.HandleFunc("POST "+signOut, g.signOut)
	g.mux.HandleFunc("GET /", g.servePage)
	if options.OIDC.IssuerURL == "" {
		return g, nil
	}
	var err error
	if g.issuer, err = newIssuer(options.OIDC); err != nil {
		return nil, err
	}
	g.mux.Handle("GET "+byOIDC, access.NewPlaces(maxToIssuer, waitingToIssuer).Bound(http.HandlerFunc(g.toIssuer)))
	g.mux.HandleFunc("GET "+callback, g.fromIssuer)
	return g, nil
}

func (g *Guard) ServeHTTP(w http.ResponseWriter, req *http.Request) {
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
		if session, done := g.sessions.use(keyOf(secret.Value), req.Host, !pages.Renews(req)); session != nil {
			defer done()
			defer connections.Hold(req.Context(), true)()
			session.owner.places.Bound(g.pages.Bound(session.pages)).ServeHTTP(w, req)
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
	g.try(w, req, g.byToken, func(ctx context.Context) (failed bool) {
		entered, failed := g.begin(w, req.WithContext(ctx), "token", pasted(token))
		if entered {
			http.Redirect(w, req, "/", http.StatusSeeOther)
		}
		return failed
	})
}

// try has an attempt checked when its turn comes. Check returns whether the credential was wrong.
func (g *Guard) try(w http.ResponseWriter, req *http.Request, of *attempts, check func(context.Context) (failed bool)) {
	defer connections.Hold(req.Context(), false)()
	ctx, cancel := context.WithTimeout(req.Context(), access.PageTimeout)
	defer cancel()
	end, err := of.begin(ctx, connections.NetworkOf(req.RemoteAddr))
	if err != nil {
		w.Header().Set("Retry-After", "1")
		g.askToSignIn(w, http.StatusServiceUnavailable, "Too many users sign in at this moment: try again.")
		return
	}
	failed := false
	defer func() { end(failed) }()
	failed = check(ctx)
}

// hasLeft returns whether a client does not wait for the answer any more.
func hasLeft(req *http.Request) bool { return errors.Is(req.Context().Err(), context.Canceled) }

// refuse writes a failure to sign in to the log, unless that has many, or the client has left. The error must not contain a secret.
func (g *Guard) refuse(req *http.Request, err error, by string) {
	if !hasLeft(req) && g.refusals.Allow() {
		klog.ErrorS(err, "A user could not sign in", "by", by, "client", req.RemoteAddr)
	}
}

// begin begins a session if the API server accepts a credential. Otherwise it answers, and returns whether the credential was wrong. The
// credential of a client that leaves before the answer counts as wrong: it may have been, and a client must not decide what counts.
func (g *Guard) begin(w http.ResponseWriter, req *http.Request, by string, with credential) (entered, failed bool) {
	secret := newSecret()
	k := keyOf(secret)
	hub, err := clientOf(g.options.API, with, func() { g.sessions.end(k) })
	if err != nil {
		g.askToSignIn(w, http.StatusInternalServerError, "The console cannot read the API server.")
		return false, false
	}
	name, err := hub.Reader(req.Context())
	refused := (*searchclient.Error)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusUnauthorized, err == nil && (name == "" || name == user.Anonymous):
		g.refuse(req, errors.New("the API server does not accept the token"), by)
		g.askToSignIn(w, http.StatusUnauthorized, "The API server does not accept this token.")
		return false, true
	case err != nil:
		g.refuse(req, fmt.Errorf("the API server has not said whose token it is: %w", err), by)
		g.askToSignIn(w, http.StatusBadGateway, "The API server does not say whose token it is: try again later.")
		return false, hasLeft(req)
	}
	g.sessions.begin(k, name, req.Host, pages.New(hub, pages.Options{SignOut: true, Room: g.followers, Looks: g.looks, User: name}))
	klog.InfoS("A user has signed in", "user", name, "client", req.RemoteAddr)
	g.endOf(req)
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: secret, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	return true, false
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
