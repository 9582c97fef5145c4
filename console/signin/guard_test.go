// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/signin/issuertest"
)

// Tokens of users of the API server, and what it calls them.
const (
	tokenOfAnn = "token-of-ann-0123456789"
	tokenOfTom = "token-of-tom-0123456789"
)

// testAPI is an API server with search, which has one object for each user.
type testAPI struct {
	t      testing.TB
	server *httptest.Server

	mu sync.Mutex
	// users are those of tokens. Tokens of an issuer are not among them.
	users map[string]string
	asked []string
	// silent is closed by the first request, if it is set, and none is answered.
	silent chan struct{}
}

func (a *testAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	for name := range req.Header {
		assert.False(a.t, strings.HasPrefix(name, "Impersonate"), name)
		assert.NotEqual(a.t, "Cookie", name)
	}
	a.mu.Lock()
	a.asked = append(a.asked, token)
	user, silent := a.users[token], a.silent
	a.mu.Unlock()
	if silent != nil {
		close(silent)
		_, _ = io.Copy(io.Discard, req.Body) // else the server does not notice that the client has left
		<-req.Context().Done()
		return
	}
	if user == "" {
		user, _ = issuertest.UserOf(token)
	}
	if req.URL.Path == "/metrics" && user != "" {
		fmt.Fprintf(w, "tripod_backend_endpoint_state{backend=\"core\",endpoint=\"of-%s:1\",state=\"serving\"} 1\n", user)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch {
	case user == "":
		w.WriteHeader(http.StatusUnauthorized)
		answer = map[string]any{"kind": "Status", "message": "Unauthorized"}
	case strings.HasSuffix(req.URL.Path, "/selfsubjectreviews"):
		answer = map[string]any{"status": map[string]any{"userInfo": map[string]any{"username": user}}}
	default:
		answer = map[string]any{"items": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": "settings-of-" + user, "namespace": "shop", "annotations": map[string]any{"shadow.clusterpedia.io/cluster-name": "east"},
		}}}}
	}
	assert.NoError(a.t, json.NewEncoder(w).Encode(answer))
}

// tokens returns those of the requests since the last call.
func (a *testAPI) tokens() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// team is a console for a team, with the servers that it asks.
type team struct {
	t      testing.TB
	api    *testAPI
	issuer *issuertest.Issuer
	guard  *Guard
	server *httptest.Server
}

func newTeam(t testing.TB) *team {
	t.Helper()
	c := &team{t: t, api: &testAPI{t: t, users: map[string]string{tokenOfAnn: "ann", tokenOfTom: "tom"}}, issuer: issuertest.New(t)}
	c.api.server = httptest.NewTLSServer(c.api)
	t.Cleanup(c.api.server.Close)
	issuer := httptest.NewTLSServer(c.issuer)
	t.Cleanup(issuer.Close)
	c.issuer.URL = issuer.URL

	dir := t.TempDir()
	authority, secret := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "secret")
	block := pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw}
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&block), 0o600))
	require.NoError(t, os.WriteFile(secret, []byte(issuertest.ClientSecret+"\n"), 0o600))
	c.server = httptest.NewUnstartedServer(nil)
	var err error
	c.guard, err = New(Options{
		Hosts: []string{c.server.Listener.Addr().String()}, IdleTimeout: time.Hour, Lifetime: 2 * time.Hour,
		// What the process may have as credentials of its own is not used.
		API: &rest.Config{
			Host: c.api.server.URL, BearerToken: "own-token", Username: "own", Password: "own", TLSClientConfig: rest.TLSClientConfig{CAFile: authority},
			Impersonate: rest.ImpersonationConfig{UserName: "root"},
		},
		OIDC: OIDC{IssuerURL: issuer.URL, ClientID: issuertest.ClientID, ClientSecretFile: secret, CAFile: authority, Scopes: []string{"groups"}},
	})
	require.NoError(t, err)
	c.server.Config.Handler = c.guard
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	return c
}

// browser keeps cookies, and follows no redirects.
type browser struct {
	*team
	client *http.Client
}

func (c *team) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(c.t, err)
	return &browser{c, &http.Client{Jar: jar, Transport: c.server.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// send sends a request to a path, or to an address. Headers are pairs; Host is one of them.
func (b *browser) send(method, to string, form url.Values, headers ...string) (*http.Response, string) {
	b.t.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.server.URL + to
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, to, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.server.URL)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	response, err := b.client.Do(req)
	require.NoError(b.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return response, string(body)
}

func (b *browser) get(to string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	return b.send(http.MethodGet, to, nil, headers...)
}

// signIn signs in with a token.
func (b *browser) signIn(token string) {
	b.t.Helper()
	response, body := b.send(http.MethodPost, signIn, url.Values{"token": {token}})
	require.Equal(b.t, http.StatusSeeOther, response.StatusCode, body)
	require.Equal(b.t, "/", response.Header.Get("Location"))
}

// reads returns as whom the browser is signed in, or nothing.
func (b *browser) reads() string {
	b.t.Helper()
	response, body := b.get("/")
	if response.StatusCode == http.StatusSeeOther {
		assert.Equal(b.t, signIn, response.Header.Get("Location"))
		return ""
	}
	require.Equal(b.t, http.StatusOK, response.StatusCode, body)
	_, after, _ := strings.Cut(body, "You read as <strong>")
	name, _, _ := strings.Cut(after, "</strong>")
	return name
}

func (g *Guard) count() int {
	g.sessions.mu.Lock()
	defer g.sessions.mu.Unlock()
	return len(g.sessions.all)
}

func TestEachSessionHasItsOwnViewOfServices(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	ann, tom := c.browser(), c.browser()
	ann.signIn(tokenOfAnn)
	tom.signIn(tokenOfTom)
	for _, path := range []string{"/services", "/services/live"} {
		for _, user := range []struct {
			b                  *browser
			name, other, token string
		}{{ann, "ann", "tom", tokenOfAnn}, {tom, "tom", "ann", tokenOfTom}} {
			c.api.tokens()
			response, body := user.b.get(path)
			assert.Equal(t, http.StatusOK, response.StatusCode)
			assert.Contains(t, body, "core at of-"+user.name+":1")
			assert.NotContains(t, body, "of-"+user.other)
			for _, token := range c.api.tokens() {
				assert.Equal(t, user.token, token)
			}
		}
	}
	ann.send(http.MethodPost, signOut, url.Values{})
	response, body := ann.get("/services/live")
	assert.Equal(t, http.StatusSeeOther, response.StatusCode)
	assert.NotContains(t, body, "core at")
	other := c.browser()
	other.signIn(tokenOfAnn)
	_, body = other.get("/services")
	assert.Contains(t, body, "core at of-ann:1")
	c.api.mu.Lock()
	c.api.users = nil // the API accepts no token any more
	c.api.mu.Unlock()
	_, _ = other.get("/")
	response, _ = other.get("/services/live")
	assert.Equal(t, http.StatusSeeOther, response.StatusCode, "the session has ended")
}

func TestEachUserSeesOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	ann, tom := c.browser(), c.browser()
	ann.signIn(" " + tokenOfAnn + "\n")
	tom.signIn(tokenOfTom)
	c.api.tokens()
	for range 2 { // what a page remembers is of its session
		for _, user := range []struct {
			b                  *browser
			name, other, token string
		}{{ann, "ann", "tom", tokenOfAnn}, {tom, "tom", "ann", tokenOfTom}} {
			_, body := user.b.get("/?q=settings")
			assert.Contains(t, body, "You read as <strong>"+user.name)
			assert.Contains(t, body, "Objects that you may not read are left out")
			assert.Contains(t, body, "settings-of-"+user.name)
			assert.NotContains(t, body, "settings-of-"+user.other)
			assert.NotContains(t, body, user.token)
			asked := c.api.tokens()
			assert.NotEmpty(t, asked)
			for _, token := range asked {
				assert.Equal(t, user.token, token)
			}
		}
	}
}

func TestTheCookieIsOfThisHostAlone(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	first, _ := c.browser().send(http.MethodPost, signIn, url.Values{"token": {tokenOfAnn}})
	second, _ := c.browser().send(http.MethodPost, signIn, url.Values{"token": {tokenOfAnn}})
	require.Len(t, first.Cookies(), 1)
	given := first.Cookies()[0]
	assert.True(t, strings.HasPrefix(given.Name, "__Host-"), "browsers then want the rest of this")
	assert.True(t, given.Secure)
	assert.True(t, given.HttpOnly, "scripts do not read it")
	assert.Equal(t, http.SameSiteStrictMode, given.SameSite, "other sites do not use it")
	assert.Equal(t, "/", given.Path)
	assert.Empty(t, given.Domain)
	assert.Zero(t, given.MaxAge, "the browser forgets it when it ends")
	assert.GreaterOrEqual(t, len(given.Value), 40)
	assert.NotContains(t, given.Value, tokenOfAnn)
	assert.NotEqual(t, given.Value, second.Cookies()[0].Value)
}

func TestWhoCannotSignIn(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	token := func(of string) url.Values { return url.Values{"token": {of}} }
	for name, test := range map[string]struct {
		method, to string
		form       url.Values
		headers    []string
		want       int
	}{
		"an unknown token":            {http.MethodPost, signIn, token("token-of-nobody"), nil, 401},
		"no token":                    {http.MethodPost, signIn, token(" "), nil, 400},
		"two lines":                   {http.MethodPost, signIn, token(tokenOfAnn + "\r\nImpersonate-User: root"), nil, 400},
		"a long token":                {http.MethodPost, signIn, token(strings.Repeat("x", maxToken+1)), nil, 400},
		"a long body":                 {http.MethodPost, signIn, token(strings.Repeat("x", maxForm)), nil, 400},
		"JSON":                        {http.MethodPost, signIn, token(tokenOfAnn), []string{"Content-Type", "application/json"}, 400},
		"the token in the address":    {http.MethodPost, signIn + "?" + token(tokenOfAnn).Encode(), url.Values{}, nil, 400},
		"without its origin":          {http.MethodPost, signIn, token(tokenOfAnn), []string{"Origin", ""}, 403},
		"a form of another site":      {http.MethodPost, signIn, token(tokenOfAnn), []string{"Origin", "https://evil.example.com"}, 403},
		"a form without an origin":    {http.MethodPost, signIn, token(tokenOfAnn), []string{"Origin", "null"}, 403},
		"a form in clear":             {http.MethodPost, signIn, token(tokenOfAnn), []string{"Origin", "http://" + c.server.Listener.Addr().String()}, 403},
		"another site by its headers": {http.MethodPost, signIn, token(tokenOfAnn), []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another host of the site":    {http.MethodPost, signIn, token(tokenOfAnn), []string{"Sec-Fetch-Site", "same-site"}, 403},
		"another host":                {http.MethodPost, signIn, token(tokenOfAnn), []string{"Host", "evil.example.com", "Origin", "https://evil.example.com"}, 421},
		"by PUT":                      {http.MethodPut, signIn, token(tokenOfAnn), nil, 405},
		"by GET":                      {http.MethodGet, signIn + "?" + token(tokenOfAnn).Encode(), nil, nil, 200},
	} {
		response, body := c.browser().send(test.method, test.to, test.form, test.headers...)
		assert.Equal(t, test.want, response.StatusCode, "%s: %s", name, body)
		assert.Empty(t, response.Cookies(), name)
		assert.NotContains(t, body, tokenOfAnn, name)
		assert.Equal(t, "no-store", response.Header.Get("Cache-Control"), name)
	}
	assert.Zero(t, c.guard.count())
}

func TestRequestsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	for name, test := range map[string]struct {
		method, to string
		headers    []string
		want       int
	}{
		"a name of another site":            {http.MethodGet, "/", []string{"Host", "evil.example.com"}, 421},
		"another port":                      {http.MethodGet, "/", []string{"Host", "127.0.0.1:1"}, 421},
		"another origin":                    {http.MethodGet, "/", []string{"Origin", "https://evil.example.com"}, 200},
		"a page of another site":            {http.MethodGet, "/object", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a search of another site":          {http.MethodGet, "/?q=x", []string{"Sec-Fetch-Site", "cross-site"}, 200},
		"a login of another site":           {http.MethodGet, byOIDC, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"sign-out by another site":          {http.MethodPost, signOut, []string{"Origin", "https://evil.example.com"}, 403},
		"sign-out by GET":                   {http.MethodGet, signOut, nil, 404},
		"POST":                              {http.MethodPost, "/", []string{"Origin", c.server.URL}, 405},
		"DELETE":                            {http.MethodDelete, "/object", nil, 405},
		"long parameters":                   {http.MethodGet, "/?q=" + strings.Repeat("x", 17<<10), nil, 414},
		"a path that the pages do not have": {http.MethodGet, "/apis", nil, 404},
	} {
		response, body := b.send(test.method, test.to, nil, test.headers...)
		assert.Equal(t, test.want, response.StatusCode, "%s: %s", name, body)
		assert.NotContains(t, body, "settings-of-ann", name)
		for header, value := range map[string]string{"Referrer-Policy": "same-origin", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
			assert.Equal(t, value, response.Header.Get(header), "%s: %s", name, header)
		}
		policy := response.Header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'", name)
		assert.NotContains(t, policy, "script", name)
	}
	response, body := b.get("/", "Sec-Fetch-Site", "same-origin")
	assert.Contains(t, body, "settings-of-ann", "none of these has ended the session")
	assert.Equal(t, "max-age=31536000", response.Header.Get("Strict-Transport-Security"))

	for name, cookies := range map[string]string{"none": "", "a wrong one": cookie + "=x", "an empty one": cookie + "="} {
		response, body := c.browser().get("/?q=settings", "Cookie", cookies)
		assert.Equal(t, http.StatusSeeOther, response.StatusCode, name)
		assert.NotContains(t, body, "settings-of-ann", name)
	}
	response, _ = c.browser().get("/console.css")
	assert.Equal(t, http.StatusOK, response.StatusCode, "the page on which users sign in has its style")
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	_, body := b.get("/")
	assert.Contains(t, body, `action="sign-out" method="post"`)
	kept := b.client.Jar.Cookies(c.url())
	response, _ := b.send(http.MethodPost, signOut, url.Values{})
	assert.Equal(t, signIn, response.Header.Get("Location"))
	assert.Empty(t, b.client.Jar.Cookies(c.url()), "the browser has forgotten the cookie")
	b.client.Jar.SetCookies(c.url(), kept)
	assert.Empty(t, b.reads(), "and it does not work any more")

	b.signIn(tokenOfTom)
	b.signIn(tokenOfAnn)
	assert.Equal(t, 1, c.guard.count(), "another login ends the session before")
	assert.Equal(t, "ann", b.reads())

	c.api.mu.Lock()
	delete(c.api.users, tokenOfAnn)
	c.api.mu.Unlock()
	_, body = b.get("/")
	assert.Contains(t, body, `<a href="sign-in">Sign in again</a>`)
	assert.Empty(t, b.reads(), "the API server does not accept the token any more")
	assert.Zero(t, c.guard.count())
}

func (c *team) url() *url.URL {
	parsed, err := url.Parse(c.server.URL)
	require.NoError(c.t, err)
	return parsed
}

// TestFailuresOfOthersKeepNoUserOut has clients behind one address fail.
func TestFailuresOfOthersKeepNoUserOut(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	c.guard.byToken.forgiven = 0 // the time of the test does not count
	b := c.browser()
	for i := range 2 * maxFailures {
		response, _ := b.send(http.MethodPost, signIn, url.Values{"token": {fmt.Sprint("guess-", i)}})
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	}
	assert.True(t, c.guard.byToken.slow("127.0.0.1:1"))
	assert.False(t, c.guard.byIssuer.slow("127.0.0.1:1"), "logins at the issuer count on their own")
	b.signIn(tokenOfAnn)
	assert.Equal(t, "ann", b.reads())
}

// TestRefusedTokensAreLogged is not parallel, because there is one log.
func TestRefusedTokensAreLogged(t *testing.T) {
	log := logged(t)
	c := newTeam(t)
	c.guard.refusals.SetLimit(0) // the time of the test does not count
	b := c.browser()
	for i := range 2 * refusalsLogged {
		b.send(http.MethodPost, signIn, url.Values{"token": {fmt.Sprint("guess-", i)}})
	}
	klog.Flush()
	assert.Contains(t, log.String(), `"A user could not sign in" err="the API server does not accept the token" by="token" client="127.0.0.1:`)
	assert.NotContains(t, log.String(), "guess-")
	assert.Equal(t, refusalsLogged, strings.Count(log.String(), "could not sign in"), "a client cannot fill the log")
}

// TestAClientThatLeavesHasFailed has an API server that does not answer. It is not parallel, because there is one log.
func TestAClientThatLeavesHasFailed(t *testing.T) {
	log := logged(t)
	c := newTeam(t)
	c.guard.byToken.forgiven = 0 // the time of the test does not count
	for left := range maxFailures {
		require.False(t, c.guard.byToken.slow("192.0.2.7:1"), left)
		silent := make(chan struct{})
		c.api.mu.Lock()
		c.api.silent = silent
		c.api.mu.Unlock()
		ctx, leave := context.WithCancel(t.Context())
		form := url.Values{"token": {fmt.Sprint("guess-", left)}}
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, c.server.URL+signIn, strings.NewReader(form.Encode()))
		req.RemoteAddr = "192.0.2.7:1"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", c.server.URL)
		go func() {
			<-silent
			leave()
		}()
		c.guard.ServeHTTP(httptest.NewRecorder(), req)
	}
	assert.True(t, c.guard.byToken.slow("192.0.2.7:1"))
	klog.Flush()
	assert.NotContains(t, log.String(), "could not sign in")
}

func TestASessionIsOfOneHost(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	b := c.browser()
	b.signIn(tokenOfAnn)
	c.guard.options.Hosts = append(c.guard.options.Hosts, "other.example.com")
	own := b.client.Jar.Cookies(c.url())[0]
	for to, want := range map[string]int{"other.example.com": http.StatusSeeOther, c.url().Host: http.StatusOK} {
		response, body := c.browser().get("/?q=settings", "Host", to, "Cookie", own.String())
		assert.Equal(t, want, response.StatusCode, to)
		assert.Equal(t, want == http.StatusOK, strings.Contains(body, "settings-of-ann"), to)
	}
}

// TestRequestsOfAUserShareTheirPlaces has one session wait for pages of another one.
func TestRequestsOfAUserShareTheirPlaces(t *testing.T) {
	t.Parallel()
	c := newTeam(t)
	first, second, tom := c.browser(), c.browser(), c.browser()
	first.signIn(tokenOfAnn)
	second.signIn(tokenOfAnn)
	tom.signIn(tokenOfTom)
	c.guard.sessions.mu.Lock()
	places := c.guard.sessions.users["ann"].places
	c.guard.sessions.mu.Unlock()
	var free []func()
	for range maxPagesOfUser {
		one, err := places.Take(t.Context())
		require.NoError(t, err)
		free = append(free, one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting errgroup.Group
	for range waitingOfUser {
		waiting.Go(func() error {
			_, err := places.Take(ctx)
			for errors.Is(err, access.ErrBusy) { // the one below has had the place
				_, err = places.Take(ctx)
			}
			return err
		})
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.Eventually(t, func() bool {
		_, err := places.Take(gone)
		return errors.Is(err, access.ErrBusy)
	}, time.Minute, time.Millisecond)
	for _, b := range []*browser{first, second} {
		response, body := b.get("/")
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
		assert.Equal(t, "1", response.Header.Get("Retry-After"))
	}
	assert.Equal(t, "tom", tom.reads())
	cancel()
	assert.ErrorIs(t, waiting.Wait(), context.Canceled)
	for _, one := range free {
		one()
	}
	assert.Equal(t, "ann", second.reads())
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"--host is needed":                      func(o *Options) { o.Hosts = nil },
		`--host "https://a" is not`:             func(o *Options) { o.Hosts = []string{"https://a"} },
		`--host "a/b" is not`:                   func(o *Options) { o.Hosts = []string{"a/b"} },
		`--server "http://a" is not a URL`:      func(o *Options) { o.API.Host = "http://a" },
		`--server "" is not a URL`:              func(o *Options) { o.API.Host = "" },
		"--session-idle-timeout and":            func(o *Options) { o.IdleTimeout = 0 },
		"--certificate-authority: ":             func(o *Options) { o.API.CAFile = "/does/not/exist" },
		"--oidc-issuer-url is needed":           func(o *Options) { o.OIDC.ClientID = "a" },
		`--oidc-issuer-url "http://a" is not`:   func(o *Options) { o.OIDC = OIDC{IssuerURL: "http://a", ClientID: "a"} },
		"--oidc-client-id is needed":            func(o *Options) { o.OIDC.IssuerURL = "https://a" },
		"--oidc-ca-file: open /does/not/exist:": func(o *Options) { o.OIDC = OIDC{IssuerURL: "https://a", ClientID: "a", CAFile: "/does/not/exist"} },
	} {
		options := Options{Hosts: []string{"a", "b:1"}, API: &rest.Config{Host: "https://a"}, IdleTimeout: 1, Lifetime: 1}
		_, err := New(options)
		require.NoError(t, err)
		change(&options)
		_, err = New(options)
		assert.ErrorContains(t, err, want)
	}
}
