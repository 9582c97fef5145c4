// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"golang.org/x/net/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/tripod-k8s/tripod/test/framework"
)

// tokenPrefix is how browsers, which cannot set headers, send a token.
const tokenPrefix = "base64url.bearer.authorization.k8s.io."

func TestATokenInTheWebSocketProtocolIsTheUsersAndGoesNoFurther(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		for _, w := range ways {
			// An API server passes version 4 on, and translates version 5 unless the kubelet does.
			for _, protocol := range []string{"v4.channel.k8s.io", "v5.channel.k8s.io"} {
				if !w.websocket {
					continue
				}
				t.Run(protocol+" by "+w.name, func(t *testing.T) {
					asked := make(chan http.Header, 10)
					p := newPod(t, cluster, w, func(k *framework.Kubelet) { k.Asked = func(req *http.Request) { asked <- req.Header } })
					token := p.executorToken(t)
					encoded := base64.RawURLEncoding.EncodeToString([]byte(token))
					streams := remotecommand.StreamOptions{Stdin: none(), Stdout: newDigest()}
					target := p.execURL(t, streams, "cat")
					if _, err := echoed(t.Context(), cluster.Anonymous(), target, protocol); err == nil {
						t.Error("nobody may run programs")
					}
					framework.Eventually(t, "the token's user may run programs", func(ctx context.Context) error {
						got, err := echoed(ctx, cluster.Anonymous(), target, tokenPrefix+encoded, protocol)
						if err == nil && got != "hello" {
							t.Errorf("got %q", got)
						}
						return err
					})
					for name, values := range receive(t, "the request to the kubelet", asked) {
						if text := strings.Join(values, ", "); strings.Contains(text, token) || strings.Contains(text, encoded) {
							t.Errorf("the kubelet gets the token in %s: %s", name, text)
						}
					}
				})
			}
		}
	})
}

// executorToken returns a token of the pod's service account, which may run programs in it.
func (p *pod) executorToken(t *testing.T) string {
	t.Helper()
	client := kubeClient(t, p.cluster.Admin())
	_, err := client.RbacV1().Roles(p.namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "executor"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(p.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "executor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "executor"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	issued, err := client.CoreV1().ServiceAccounts(p.namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return issued.Status.Token
}

// echoed sends "hello" to stdin of a program, and returns what comes from its stdout.
func echoed(ctx context.Context, config *rest.Config, target *url.URL, protocols ...string) (string, error) {
	origin := *target
	origin.Path, origin.RawQuery = "", ""
	dialed, err := websocket.NewConfig(strings.Replace(target.String(), "https:", "wss:", 1), origin.String())
	if err != nil {
		return "", err
	}
	if dialed.TlsConfig, err = rest.TLSConfigFor(config); err != nil {
		return "", err
	}
	dialed.TlsConfig.NextProtos = []string{"http/1.1"}
	dialed.TlsConfig.MinVersion = tls.VersionTLS12
	dialed.Protocol = protocols
	connection, err := dialed.DialContext(ctx)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if accepted := connection.Config().Protocol; !slices.Equal(accepted, protocols[len(protocols)-1:]) {
		return "", fmt.Errorf("the server speaks %q", accepted)
	}
	// The first byte of a message is the number of the stream.
	if err := websocket.Message.Send(connection, []byte("\x00hello")); err != nil {
		return "", err
	}
	for {
		var message []byte
		if err := websocket.Message.Receive(connection, &message); err != nil {
			return "", err
		}
		if len(message) > 1 && message[0] == 1 {
			return string(message[1:]), nil
		}
	}
}
