// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/console/signin/issuertest"
	"github.com/tripod-k8s/tripod/test/framework"
)

// loginIssuer is an issuer that serves as long as the tests run.
type loginIssuer struct {
	*issuertest.Issuer
	authority string

	mu     sync.Mutex
	faults []string
}

// startIssuer starts an issuer whose users are of the team that the hub requires.
func startIssuer(dir string) (*loginIssuer, error) {
	i := &loginIssuer{authority: filepath.Join(dir, "issuer.crt")}
	i.Issuer = issuertest.New(i)
	i.Change = inTeam("shop")
	server := httptest.NewTLSServer(i)
	i.URL = server.URL
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	return i, os.WriteFile(i.authority, pem.EncodeToMemory(&block), 0o600)
}

// inTeam has tokens name a team.
func inTeam(name string) func(map[string]any) {
	return func(claims map[string]any) { claims["team"] = name }
}

// Errorf and FailNow note what no client should send. Requests come between tests, too.
func (i *loginIssuer) Errorf(format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = append(i.faults, fmt.Sprintf(format, args...))
}

func (i *loginIssuer) FailNow() { panic("the issuer has failed") }

// flags are those of core.
func (i *loginIssuer) flags() []string {
	return []string{
		"--oidc-issuer-url=" + i.URL, "--oidc-ca-file=" + i.authority, "--oidc-client-id=" + issuertest.ClientID, "--oidc-signing-algs=ES256",
		"--oidc-username-claim=sub", "--oidc-username-prefix=oidc:", "--oidc-required-claim=team=shop",
	}
}

// signInAtIssuer follows the link to the issuer, and returns the text of the page to which that leads.
func (b *browser) signInAtIssuer() string {
	b.t.Helper()
	b.do(chromedp.Click(`//a[starts-with(normalize-space(), "Sign in at ")]`), chromedp.WaitVisible(`.error, form[action="sign-out"]`))
	return b.text()
}

// TestUsersSignInAtAnIssuer has a user sign in by OpenID Connect, see the objects of that user, and sign out. Others are refused.
func TestUsersSignInAtAnIssuer(t *testing.T) {
	path := requireChromium(t)
	user := framework.UniqueName("ann")
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-settings}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "oidc:%[1]s"}]
`, user)))
	issuer.Set(func() { issuer.User = user })
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(issuertest.ClientSecret), 0o600))
	process, host := serveTeam(t, "--oidc-issuer-url", issuer.URL, "--oidc-client-id", issuertest.ClientID,
		"--oidc-client-secret-file", secret, "--oidc-ca-file", issuer.authority, "--oidc-scopes", "groups")

	b := openAt(t, path, "https://"+host+"/sign-in", chromedp.Flag("ignore-certificate-errors", true))
	b.mu.Lock()
	b.issuer = issuer.URL
	b.mu.Unlock()
	assert.Contains(t, b.text(), "Sign in at "+issuer.URL)
	b.examine("sign-in-by-oidc")
	framework.Eventually(t, "the hub has the keys of the issuer", func(context.Context) error {
		if text := b.signInAtIssuer(); !strings.Contains(text, "You read as oidc:"+user) {
			return errors.New(text)
		}
		return nil
	})
	b.visit("")
	rows := b.rows()
	require.Len(t, rows, 1, "%q", rows)
	assert.True(t, strings.HasPrefix(rows[0], "hub shop ConfigMap settings "), rows[0])
	assert.NotContains(t, b.text(), "east: ", "a cluster in which this user may see nothing")

	b.do(chromedp.Click(`//button[normalize-space()="Sign out"]`), chromedp.WaitVisible("#token"))
	b.visit("")
	assert.Equal(t, "/sign-in", evaluate[string](b, "location.pathname"), "the session has ended")

	for name, refusal := range map[string]struct {
		change func()
		want   string
	}{
		"the hub":     {func() { issuer.Change = inTeam("other") }, "The API server does not accept this token."},
		"the issuer":  {func() { issuer.Denies = "access_denied" }, "The issuer has refused: access_denied"},
		"the console": {func() { issuer.Refuses = "server_error" }, "The issuer has not signed you in. The log of the console says why."},
	} {
		issuer.Set(refusal.change)
		b.visit("sign-in")
		b.signInAtIssuer()
		assert.Equal(t, []string{refusal.want}, evaluate[[]string](b, `[...document.querySelectorAll(".error")].map(e => e.innerText)`), "refused by %s", name)
		issuer.Set(func() { issuer.Change, issuer.Denies, issuer.Refuses = inTeam("shop"), "", "" })
		b.visit("")
		assert.Equal(t, "/sign-in", evaluate[string](b, "location.pathname"), "refused by %s", name)
	}
	b.visit("sign-in")
	assert.Contains(t, b.signInAtIssuer(), "You read as oidc:"+user, "a refusal is forgotten")

	require.NoError(t, process.Stop())
	log, err := os.ReadFile(process.Log)
	require.NoError(t, err)
	for _, secret := range append(issuer.Secrets(), issuertest.ClientSecret) {
		assert.NotContains(t, string(log), secret)
	}
	issuer.mu.Lock()
	defer issuer.mu.Unlock()
	assert.Empty(t, issuer.faults)
}
