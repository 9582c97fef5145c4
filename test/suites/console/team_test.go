// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// reader is a ServiceAccount that may read the settings of the hub.
const reader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-settings}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: shop}]
`

// tokenOf creates that account, and returns a token of it.
func tokenOf(t *testing.T, account string) string {
	t.Helper()
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(reader, account)))
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	made, err := client.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return made.Status.Token
}

// serveTeam starts `tripod console serve`, and returns its host.
func serveTeam(t *testing.T, args ...string) (process *framework.Process, host string) {
	t.Helper()
	port, err := framework.FreePort()
	require.NoError(t, err)
	host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	process, err = environment.Start(framework.Command{
		Name: framework.UniqueName("console"), Path: environment.Binary("tripod"), Args: append([]string{
			"console", "serve", "--server", fleet.URL, "--certificate-authority", fleet.CAFile(), "--host", host,
			"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(port),
			"--tls-cert-file", filepath.Join(fleet.PKI, "apiserver.crt"), "--tls-private-key-file", filepath.Join(fleet.PKI, "apiserver.key"),
		}, args...),
	})
	require.NoError(t, err)
	framework.Eventually(t, "the console serves", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	return process, host
}

// TestATeamSignsIn has a user sign in to `tripod console serve` with a token, come from another site, and sign out.
func TestATeamSignsIn(t *testing.T) {
	path := requireChromium(t)
	process, host := serveTeam(t)
	account := framework.UniqueName("reader")
	token := tokenOf(t, account)

	b := openAt(t, path, "https://"+host+"/sign-in", chromedp.Flag("ignore-certificate-errors", true))
	b.examine("sign-in")
	b.do(chromedp.SendKeys("#token", "wrong"+kb.Enter), chromedp.WaitVisible(".error"))
	assert.Contains(t, b.text(), "The API server does not accept this token.")
	b.do(chromedp.SendKeys("#token", token+kb.Enter), chromedp.WaitVisible(`//button[normalize-space()="Sign out"]`))
	framework.Eventually(t, "the account sees the settings of the hub", func(context.Context) error {
		b.visit("")
		if rows := b.rows(); len(rows) != 1 || !strings.HasPrefix(rows[0], "hub shop ConfigMap settings ") {
			return fmt.Errorf("got %q", rows)
		}
		return nil
	})
	assert.Contains(t, b.text(), "You read as system:serviceaccount:shop:"+account)
	b.examine("team")

	b.mu.Lock()
	home := b.home
	b.home = "" // other sites are no fault here
	b.mu.Unlock()
	b.do(chromedp.Navigate(fmt.Sprintf(`data:text/html,<h1>Elsewhere</h1><a href="%s">Console</a>`, home)), chromedp.WaitVisible("h1"))
	// A click through the debugger would wait for an answer of a page that is gone: the next one is in another process.
	evaluate[chromedp.Void](b, `setTimeout(() => document.querySelector("a").click())`)
	framework.Eventually(t, "a link of another site leads into the session", func(context.Context) error {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + " " + document.body.innerText`))
		if err == nil && !strings.Contains(text, "You read as system:serviceaccount:shop:"+account) {
			err = fmt.Errorf("the page is %q", text)
		}
		return err
	})
	b.mu.Lock()
	b.home = home
	b.mu.Unlock()
	b.do(chromedp.Click(`//button[normalize-space()="Sign out"]`), chromedp.WaitVisible("#token"))
	b.visit("")
	assert.Equal(t, "/sign-in", evaluate[string](b, "location.pathname"), "the session has ended")

	require.NoError(t, process.Signal(syscall.SIGTERM))
	assert.Equal(t, 0, process.ExitCode())
}
