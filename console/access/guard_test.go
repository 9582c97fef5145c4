// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// guarded is a server that answers with the path of the request, and its guard.
type guarded struct {
	*Guard
	t      *testing.T
	server *httptest.Server
	used   []string
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{t: t}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, "page "+req.URL.Path) //nolint:errcheck // the test is over
	}))
	g.Guard = New(g.server.Listener.Addr().String(), func(address string) { g.used = append(g.used, address) })
	g.server.Config.Handler = g.Wrap(g.server.Config.Handler)
	g.server.Start()
	t.Cleanup(g.server.Close)
	return g
}

// ask sends a request to a path below the random one, or to an address. Headers are pairs; Host is one of them.
func (g *guarded) ask(method, to string, headers ...string) (*http.Response, string) {
	g.t.Helper()
	if !strings.HasPrefix(to, "http") {
		to = g.server.URL + g.path + to
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, to, nil)
	require.NoError(g.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(g.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return response, string(body)
}

// signIn returns a cookie.
func (g *guarded) signIn() string {
	g.t.Helper()
	response, body := g.ask(http.MethodGet, g.Address())
	require.Equal(g.t, http.StatusSeeOther, response.StatusCode, body)
	require.Equal(g.t, g.path+"/", response.Header.Get("Location"))
	cookies := response.Cookies()
	require.Len(g.t, cookies, 1)
	assert.True(g.t, cookies[0].HttpOnly, "scripts do not read it")
	assert.Equal(g.t, http.SameSiteStrictMode, cookies[0].SameSite, "other sites do not use it")
	assert.Equal(g.t, g.path+"/", cookies[0].Path, "other ports do not get it")
	assert.Empty(g.t, cookies[0].Domain)
	return cookies[0].Name + "=" + cookies[0].Value
}

func TestTheTokenWorksOnce(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	first := g.Address()
	cookie := g.signIn()
	response, body := g.ask(http.MethodGet, "/object?x=1", "Cookie", cookie)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "page /object", body)

	response, body = g.ask(http.MethodGet, first)
	assert.Equal(t, http.StatusForbidden, response.StatusCode)
	assert.Contains(t, body, "was used before")
	assert.Empty(t, response.Cookies())
	require.Equal(t, []string{g.Address()}, g.used, "the console prints the next address")
	assert.NotEqual(t, first, g.Address())

	another := g.signIn()
	assert.NotEqual(t, cookie, another)
	response, _ = g.ask(http.MethodGet, "/", "Cookie", cookie)
	assert.Equal(t, http.StatusOK, response.StatusCode, "the first browser stays signed in")
}

func TestOldSessionsGiveWay(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	first := g.signIn()
	for range maxSessions {
		g.signIn()
	}
	response, _ := g.ask(http.MethodGet, "/", "Cookie", first)
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

func TestWhoGetsNoPage(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	cookie := g.signIn()
	host := g.server.Listener.Addr().String()
	_, port, _ := strings.Cut(host, ":")
	head, err := url.Parse(g.Address())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		method, to string
		headers    []string
		want       int
	}{
		"no cookie":                 {http.MethodGet, "/", nil, 401},
		"a wrong cookie":            {http.MethodGet, "/", []string{"Cookie", "tripod-console=x"}, 401},
		"no token":                  {http.MethodGet, "/sign-in", nil, 403},
		"a wrong token":             {http.MethodGet, "/sign-in?token=x", nil, 403},
		"two tokens":                {http.MethodGet, "/sign-in?token=x&" + head.RawQuery, nil, 403},
		"a token by HEAD":           {http.MethodHead, "/sign-in?" + head.RawQuery, nil, 403},
		"a token by POST":           {http.MethodPost, "/sign-in?" + head.RawQuery, nil, 405},
		"POST":                      {http.MethodPost, "/", []string{"Cookie", cookie}, 405},
		"DELETE":                    {http.MethodDelete, "/", []string{"Cookie", cookie}, 405},
		"a name of another site":    {http.MethodGet, "/", []string{"Cookie", cookie, "Host", "evil.example.com:" + port}, 421},
		"another port":              {http.MethodGet, "/", []string{"Cookie", cookie, "Host", "127.0.0.1:1"}, 421},
		"no port":                   {http.MethodGet, "/", []string{"Cookie", cookie, "Host", "127.0.0.1"}, 421},
		"another origin":            {http.MethodGet, "/", []string{"Cookie", cookie, "Origin", "https://evil.example.com"}, 403},
		"another port's origin":     {http.MethodGet, "/", []string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		"no origin":                 {http.MethodGet, "/", []string{"Cookie", cookie, "Origin", "null"}, 403},
		"another site":              {http.MethodGet, "/", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		"another port's page":       {http.MethodGet, "/", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		"the root":                  {http.MethodGet, g.server.URL + "/", []string{"Cookie", cookie}, 404},
		"a wrong path":              {http.MethodGet, g.server.URL + "/X/", []string{"Cookie", cookie}, 404},
		"long parameters":           {http.MethodGet, "/?q=" + strings.Repeat("x", MaxQuery), []string{"Cookie", cookie}, 414},
		"localhost":                 {http.MethodGet, "/", []string{"Cookie", cookie, "Host", "localhost:" + port}, 200},
		"its own origin":            {http.MethodGet, "/", []string{"Cookie", cookie, "Origin", "http://" + host, "Sec-Fetch-Site", "same-origin"}, 200},
		"an address that was typed": {http.MethodGet, "/", []string{"Cookie", cookie, "Sec-Fetch-Site", "none"}, 200},
	} {
		response, body := g.ask(c.method, c.to, c.headers...)
		assert.Equal(t, c.want, response.StatusCode, "%s: %s", name, body)
		if c.want != 200 {
			assert.NotContains(t, body, "page", name)
		}
		for header, value := range headers {
			assert.Equal(t, value, response.Header.Get(header), "%s: %s", name, header)
		}
	}
	response, _ := g.ask(http.MethodGet, g.Address())
	assert.Equal(t, http.StatusSeeOther, response.StatusCode, "none of these has used the token")
}

func TestALinkOfAnotherSiteSignsIn(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	response, body := g.ask(http.MethodGet, g.Address(), "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusOK, response.StatusCode, "a redirect would come without the cookie")
	assert.Contains(t, body, `<a href="./">`)
	assert.Len(t, response.Cookies(), 1)
}

func TestNoScriptMayRun(t *testing.T) {
	t.Parallel()
	policy := headers["Content-Security-Policy"]
	for _, directive := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"} {
		assert.Contains(t, policy, directive)
	}
	for _, word := range []string{"script", "unsafe", "data:", "http:", "https:", "*"} {
		assert.NotContains(t, policy, word)
	}
}
