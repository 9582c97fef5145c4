// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

func TestWhatIsRefusedInAConfiguration(t *testing.T) {
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example.com"})
	for name, test := range map[string]struct {
		config rest.Config
		allow  string
		want   string
	}{
		"plain http":        {rest.Config{Host: "http://10.0.0.1"}, allowHTTP, "must be at https://HOST"},
		"no verification":   {rest.Config{Host: "https://10.0.0.1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, allowInsecureTLS, "without the CA"},
		"a proxy":           {rest.Config{Host: "https://10.0.0.1", Proxy: proxy}, allowProxy, "leave out proxy-url"},
		"loopback":          {rest.Config{Host: "https://127.0.0.1:6443"}, allowLoopback, "does not connect to 127.0.0.1, an address of this machine itself"},
		"loopback of IPv6":  {rest.Config{Host: "https://[::1]:6443"}, allowLoopback, "of this machine itself"},
		"loopback as IPv6":  {rest.Config{Host: "https://[::ffff:127.0.0.1]"}, allowLoopback, "of this machine itself"},
		"no address":        {rest.Config{Host: "https://0.0.0.0"}, allowLoopback, "of this machine itself"},
		"metadata":          {rest.Config{Host: "https://169.254.169.254"}, allowLinkLocal, "of the local network only"},
		"metadata of IPv6":  {rest.Config{Host: "https://[fd00:ec2::254]"}, allowLinkLocal, "of the local network only"},
		"link-local":        {rest.Config{Host: "https://[fe80::1%25eth0]"}, allowLinkLocal, "of the local network only"},
		"a socket":          {rest.Config{Host: "unix:///run/docker.sock"}, "", "must be at https://HOST"},
		"a file":            {rest.Config{Host: "file:///etc/passwd"}, "", "must be at https://HOST"},
		"a user":            {rest.Config{Host: "https://user:secret@10.0.0.1"}, "", "must be https://HOST:PORT/PATH"},
		"a query":           {rest.Config{Host: "https://10.0.0.1/?x=y"}, "", "must be https://HOST:PORT/PATH"},
		"multicast":         {rest.Config{Host: "https://224.0.0.1"}, "", "is not the address of a server"},
		"nothing":           {rest.Config{Host: "https://10.0.0.1:6443/k8s/clusters/c-1"}, "", ""},
		"a name of its own": {rest.Config{Host: "https://east", TLSClientConfig: rest.TLSClientConfig{ServerName: "kubernetes"}}, "", ""},
		"another user":      {rest.Config{Host: "https://east", Impersonate: rest.ImpersonationConfig{UserName: "reader"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Standard()
			err := limits.CheckConfig(&test.config)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "secret")
			if test.allow != "" {
				assert.ErrorContains(t, err, "--member-allow="+test.allow)
				limits.Allow = []string{test.allow}
				assert.NoError(t, limits.CheckConfig(&test.config))
			}
		})
	}
}

func TestNoNameHidesAnAddress(t *testing.T) {
	var asked atomic.Bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	m := newMember(t, &rest.Config{Host: "https://localhost:" + at.Port(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, func(l *Limits) { l.Allow = nil })
	_, _, err = m.discover(t.Context())
	require.ErrorContains(t, err, "an address of this machine itself")
	assert.False(t, asked.Load())
	assert.Error(t, (&Limits{}).checkAddress(netip.MustParseAddr("::")))
}

// newMember returns a member that does not run.
func newMember(t *testing.T, config *rest.Config, change func(*Limits)) *Member {
	t.Helper()
	m, err := New("east", config, Everything, Dependencies{Store: newStore(t), Limiter: newLimiter(t, change)})
	require.NoError(t, err)
	return m
}

// TestTheTokenGoesNowhereElse has a member redirect each kind of request to another server, from https to http, too.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	var asked atomic.Int64
	other := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	plain, encrypted := httptest.NewServer(other), httptest.NewTLSServer(other)
	defer plain.Close()
	defer encrypted.Close()
	for _, to := range []string{plain.URL, encrypted.URL} {
		for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, 300, 399} {
			member := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				assert.Equal(t, "Bearer token", req.Header.Get("Authorization"))
				w.Header().Set("Location", to+req.URL.Path)
				w.WriteHeader(code)
			}))
			m := newMember(t, &rest.Config{Host: member.URL, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
			s := source{client: m.client, limiter: m.limiter, resource: configMaps}
			_, _, err := m.discover(t.Context())
			require.ErrorIs(t, err, errRedirect)
			_, _, _, err = s.page(t.Context(), "", nil)
			require.ErrorIs(t, err, errRedirect)
			require.ErrorIs(t, s.watch(t.Context(), "", true, nil, nil), errRedirect)
			require.ErrorIs(t, s.ask(t.Context()), errRedirect)
			require.ErrorIs(t, m.read(t.Context(), openAPI, "", nil), errRedirect)
			member.Close()
		}
	}
	assert.Zero(t, asked.Load())
}

func TestAProxyOfTheEnvironmentIsNotAsked(t *testing.T) {
	m := newMember(t, &rest.Config{Host: "https://10.0.0.1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
	transport, err := m.limiter.transport(&rest.Config{Host: "https://10.0.0.1"})
	require.NoError(t, err)
	assert.Nil(t, transport.(*http.Transport).Proxy)
}

func TestAMemberDoesNotSayWhenSearchAsksAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1000000")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	m := newMember(t, &rest.Config{Host: server.URL}, nil)
	_, _, err := m.discover(t.Context())
	require.Error(t, err)
}

func TestFlagsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Limits){
		"--member-allow":           func(l *Limits) { l.Allow = []string{"everything"} },
		"--member-max-object-size": func(l *Limits) { l.ObjectSize.Set(1) },
		"--member-max-objects":     func(l *Limits) { l.Objects = 0 },
		"--member-timeout":         func(l *Limits) { l.Timeout = time.Millisecond },
		"--member-memory":          func(l *Limits) { l.Memory.Set(1 << 20) },
	} {
		limits := Standard()
		require.NoError(t, limits.Validate())
		change(&limits)
		assert.ErrorContains(t, limits.Validate(), want)
	}
}
