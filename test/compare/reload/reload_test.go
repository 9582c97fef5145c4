// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reload changes the files of running servers under a stream of requests, of which none may fail. Tripod takes over what
// kube-apiserver does, and leaves what kube-apiserver reads only at its start; its certificates of services it takes over as well.
package reload

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	administrator = certs.Leaf{CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}, Client: true}
	serving       = certs.Leaf{CommonName: "kube-apiserver", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true}
	proxy         = certs.Leaf{CommonName: "front-proxy-client", Client: true}
)

func TestFilesAreReloadedAsByKubeAPIServer(t *testing.T) {
	both.RunFresh(t, func(t *testing.T, env *framework.Environment, tripod bool) {
		tokens := filepath.Join(env.Dir, "tokens.csv")
		replace(t, tokens, []byte("first,jane,1\n"))
		server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: []string{"--token-auth-file=" + tokens}})
		require.NoError(t, err)
		s := newSide(t, server)
		key := s.signingKey(t)
		s.token(t, "first", true)

		// These are read only at the start.
		replace(t, tokens, []byte("second,jane,1\n"))
		other := newAuthority(t, "signing")
		require.NoError(t, other.store.EnsureSigningKey("sa"))
		replace(t, s.file("sa.key"), read(t, other.store.KeyFile("sa")))
		replace(t, s.file("sa.pub"), read(t, other.store.PublicKeyFile("sa")))

		requests := startStream(t, server.URL, s.admin)
		s.servingCertificate(t)
		s.clientCA(t, requests)
		s.requestHeaderCA(t)
		framework.Eventually(t, "requests go on", requests.more())
		requests.stop()

		s.token(t, "first", true)
		s.token(t, "second", false)
		if now := s.signingKey(t); now != key {
			t.Errorf("tokens are signed by key %s, before the file was changed by %s", now, key)
		}
	})
}

// side is one of the two that are compared.
type side struct {
	server *framework.Stock
	// old are copies of the files at the start.
	old func(name string) string
	// next issues what takes the place of the cluster's CA.
	next authority
	// admin is a client by the first CA, with a new connection for each request. kept and adminConfig are by kept connections, by the
	// first CA and by the current one.
	admin, kept *http.Client
	adminConfig *rest.Config
}

func newSide(t *testing.T, server *framework.Stock) *side {
	t.Helper()
	s := &side{server: server, next: newAuthority(t, "next"), adminConfig: server.Admin()}
	dir := t.TempDir()
	s.old = func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"ca.crt", "front-proxy-ca.crt", "admin.crt", "admin.key", "front-proxy-client.crt", "front-proxy-client.key"} {
		replace(t, s.old(name), read(t, s.file(name)))
	}
	s.admin = s.client(t, s.old("admin.crt"), s.old("admin.key"), false)
	s.kept = s.client(t, s.old("admin.crt"), s.old("admin.key"), true)
	s.adminConfig.CAFile, s.adminConfig.CAData = "", read(t, s.old("ca.crt"), s.next.ca.File())
	return s
}

func (s *side) file(name string) string { return filepath.Join(s.server.PKI, name) }

func (s *side) client(t *testing.T, cert, key string, keep bool) *http.Client {
	t.Helper()
	return client(t, cert, key, keep, s.old("ca.crt"), s.next.ca.File())
}

// servingCertificate has the public endpoint show another certificate.
func (s *side) servingCertificate(t *testing.T) {
	cert, key := s.next.issue(t, "serving", serving)
	replace(t, s.file("apiserver.key"), read(t, key))
	replace(t, s.file("apiserver.crt"), read(t, cert))
	host := strings.TrimPrefix(s.server.URL, "https://")
	framework.Eventually(t, "the new certificate is shown", func(ctx context.Context) error {
		return shownBy(ctx, host, "next")
	})
}

// clientCA has the servers trust another CA, and then no longer the first one, also on connections that were made before.
func (s *side) clientCA(t *testing.T, requests *stream) {
	cert, key := s.next.issue(t, "admin", administrator)
	fresh := s.client(t, cert, key, false)
	url := s.server.URL + paths[0]
	require.NoError(t, answers(t.Context(), s.kept, url, nil, http.StatusOK))
	replace(t, s.file("ca.crt"), read(t, s.old("ca.crt"), s.next.ca.File()))
	framework.Eventually(t, "the new client CA is trusted", func(ctx context.Context) error {
		return answers(ctx, fresh, url, nil, http.StatusOK)
	})
	requests.client.Store(fresh)
	s.adminConfig.CertFile, s.adminConfig.KeyFile = cert, key

	// Requests by the first certificate, that are under way, are answered before that is refused.
	for before := requests.answered.Load(); requests.answered.Load() < before+int64(4*len(paths)); {
		require.NoError(t, answers(t.Context(), fresh, url, nil, http.StatusOK))
	}
	replace(t, s.file("ca.crt"), read(t, s.next.ca.File()))
	for what, client := range map[string]*http.Client{"on new connections": s.admin, "on a kept connection": s.kept} {
		framework.Eventually(t, "the old client CA is trusted no longer "+what, func(ctx context.Context) error {
			return answers(ctx, client, url, nil, refused...)
		})
	}
}

// requestHeaderCA has the servers trust an authenticating proxy by another CA, and the first one no longer.
func (s *side) requestHeaderCA(t *testing.T) {
	header := http.Header{"X-Remote-User": {"somebody"}, "X-Remote-Group": {"system:masters"}}
	url := s.server.URL + paths[0]
	old := s.client(t, s.old("front-proxy-client.crt"), s.old("front-proxy-client.key"), true)
	require.NoError(t, answers(t.Context(), old, url, header, http.StatusOK))
	front := newAuthority(t, "front")
	cert, key := front.issue(t, "proxy", proxy)
	replace(t, s.file("front-proxy-ca.crt"), read(t, front.ca.File()))
	fresh := s.client(t, cert, key, false)
	framework.Eventually(t, "the new proxy is believed", func(ctx context.Context) error {
		return answers(ctx, fresh, url, header, http.StatusOK)
	})
	framework.Eventually(t, "the old proxy is believed no longer", func(ctx context.Context) error {
		return answers(ctx, old, url, header, refused...)
	})
	framework.Eventually(t, "the ConfigMap for aggregated API servers has the new CAs", func(ctx context.Context) error {
		client, err := kubernetes.NewForConfig(s.adminConfig)
		if err != nil {
			return err
		}
		received, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return errors.Join(has(received, "client-ca-file", read(t, s.next.ca.File())), has(received, "requestheader-client-ca-file", read(t, front.ca.File())))
	})
}

func has(received *corev1.ConfigMap, key string, content []byte) error {
	if !strings.Contains(received.Data[key], string(bytes.TrimSpace(content))) {
		return fmt.Errorf("%s is %s", key, received.Data[key])
	}
	return nil
}

// token demands that a token of the file is known, or not.
func (s *side) token(t *testing.T, token string, known bool) {
	t.Helper()
	config := rest.AnonymousClientConfig(s.adminConfig)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	assert.Equal(t, known, err == nil, "the token %s: %v", token, err)
}

// signingKey returns the header of a new token of a service account, which names the key.
func (s *side) signingKey(t *testing.T) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.adminConfig)
	require.NoError(t, err)
	accounts := client.CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: framework.UniqueName("account")}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	encoded, _, _ := strings.Cut(made.Status.Token, ".")
	header, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	return string(header)
}
