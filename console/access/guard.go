// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	// signIn is below the random path.
	signIn = "/sign-in"
	cookie = "tripod-console"
	// maxSessions is how many browsers are signed in at most. One more replaces the first.
	maxSessions = 16
)

// Guard admits requests.
type Guard struct {
	hosts map[string]bool
	url   string
	// path is random, and below it is the console.
	path string
	used func(address string)

	mu       sync.Mutex
	token    [sha256.Size]byte
	address  string
	sessions [][sha256.Size]byte
}

// New returns the guard of a server at a loopback address. Used gets the next address when the one before was used.
func New(address string, used func(address string)) *Guard {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // a listener has a port
	}
	hosts := map[string]bool{address: true, "localhost:" + port: true}
	g := &Guard{hosts: hosts, url: "http://" + address, path: "/" + rand.Text(), used: used}
	g.newToken()
	return g
}

// Address is where a browser signs in, once.
func (g *Guard) Address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.address
}

// newToken replaces the token. The caller holds the lock, or has the only reference.
func (g *Guard) newToken() {
	token := rand.Text() + rand.Text()
	g.token = sha256.Sum256([]byte(token))
	g.address = g.url + g.path + signIn + "?token=" + token
}

// Wrap serves next to signed-in browsers, without the random path.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		SetHeaders(w.Header())
		below, inside := strings.CutPrefix(req.URL.Path, g.path+"/")
		switch {
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			Refuse(w, http.StatusMethodNotAllowed, "The console changes nothing, so it serves GET and HEAD only.")
		case !g.hosts[req.Host]:
			Refuse(w, http.StatusMisdirectedRequest, "This is not the address of the console.")
		case len(req.URL.RawQuery) > MaxQuery:
			Refuse(w, http.StatusRequestURITooLong, "The parameters are too long.")
		case !inside:
			Refuse(w, http.StatusNotFound, "Open the address that tripod console has printed.")
		case "/"+below == signIn:
			g.exchange(w, req)
		case !SameOrigin(req, "http://"+req.Host):
			Refuse(w, http.StatusForbidden, "Another site has sent this request. Open the console in a tab of its own.")
		case !g.signedIn(req):
			Refuse(w, http.StatusUnauthorized, "This browser is not signed in. Open the address that tripod console has printed last.")
		default:
			http.StripPrefix(g.path, next).ServeHTTP(w, req)
		}
	})
}

// exchange gives a browser that has the token a session.
func (g *Guard) exchange(w http.ResponseWriter, req *http.Request) {
	values, err := url.ParseQuery(req.URL.RawQuery)
	given := sha256.Sum256([]byte(values.Get("token")))
	g.mu.Lock()
	right := err == nil && req.Method == http.MethodGet && subtle.ConstantTimeCompare(given[:], g.token[:]) == 1
	session, next := "", ""
	if right {
		g.newToken()
		session, next = rand.Text()+rand.Text(), g.address
		g.sessions = append(g.sessions, sha256.Sum256([]byte(session)))
		g.sessions = g.sessions[max(0, len(g.sessions)-maxSessions):]
	}
	g.mu.Unlock()
	if !right {
		Refuse(w, http.StatusForbidden, "This address was used before, or is wrong. Open the one that tripod console has printed last.")
		return
	}
	// Without Secure: it is http, and the loopback interface is not a network.
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // see above
		Name: cookie, Value: session, Path: g.path + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	g.used(next)
	if SameOrigin(req, "http://"+req.Host) {
		w.Header().Set("Location", g.path+"/")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	// After a link of another site, a redirect would come without the cookie.
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	const page = `<!doctype html><html lang="en"><title>Signed in</title><p><a href="./">Open the console</a>`
	io.WriteString(w, page) //nolint:errcheck // the client is gone
}

// signedIn returns whether a request has the cookie of a session.
func (g *Guard) signedIn(req *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, given := range req.CookiesNamed(cookie) {
		hash := sha256.Sum256([]byte(given.Value))
		for _, session := range g.sessions {
			if subtle.ConstantTimeCompare(hash[:], session[:]) == 1 {
				return true
			}
		}
	}
	return false
}
