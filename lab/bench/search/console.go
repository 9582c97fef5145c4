// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/test/framework"
)

// pageTimeout is how long a page may take.
const pageTimeout = time.Minute

// viewing is a page of the console.
type viewing struct {
	name string
	// path returns the n-th page, below the console, and shows a text that the page must have.
	path  func(n, apps, clusters int) string
	shows func(n, apps int) string
}

func typed(text string) string { return "?q=" + url.QueryEscape(text) }

// views are the pages that are measured.
var views = []viewing{
	{
		name:  "words, one object of each member has them",
		path:  func(n, apps, _ int) string { return typed(podOf(n, apps)) },
		shows: podOf,
	},
	{
		name:  "words, one object in ten has them",
		path:  func(n, _, _ int) string { return typed(words[n%len(words)]) },
		shows: func(int, int) string { return "100 objects on this page" },
	},
	{
		name:  "kind:Pod",
		path:  func(int, int, int) string { return typed("kind:Pod") },
		shows: func(int, int) string { return "100 objects on this page" },
	},
	{
		name:  "kind:Pod count:namespace",
		path:  func(int, int, int) string { return typed("kind:Pod count:namespace") },
		shows: func(int, int) string { return "space-0" },
	},
	{
		name: "the page of a pod, with its relations",
		path: func(n, apps, clusters int) string {
			a := app{0, n * 7919 % apps}
			return "object?" + url.Values{
				"cluster": {fakeName(n % clusters)}, "version": {"v1"}, "resource": {"pods"}, "namespace": {a.namespace()}, "name": {a.pod(0)},
			}.Encode()
		},
		shows: func(int, int) string { return "Owners" },
	},
}

// podOf is the name of a pod of each cluster.
func podOf(n, apps int) string { return app{0, n * 7919 % apps}.pod(0) }

// viewed is what a page took. Bytes is its length.
type viewed struct {
	Name     string
	Requests int64
	P50, P99 float64
	Bytes    int
}

// reader returns the credentials of a ServiceAccount of the hub that may read everything, at search itself.
func (s *side) reader(ctx context.Context) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(s.hub.Admin())
	if err != nil {
		return nil, err
	}
	const name, namespace = "reader", metav1.NamespaceDefault
	meta := metav1.ObjectMeta{Name: name}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	everything := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{"get", "list", "watch"},
	}}}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, everything, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: s.url, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
}

// browser is an HTTP client that has signed in to a console.
type browser struct {
	client *http.Client
	root   string
}

// address finds where the console is in what `tripod console` prints.
var address = regexp.MustCompile(`http://\S+/sign-in\?\S+`)

// startConsole starts a console for a reader, and returns the address at which a browser signs in.
func (b *benchmark) startConsole(ctx context.Context, s *side, reader *rest.Config, name string) (signIn string, err error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["search"] = &clientcmdapi.Cluster{Server: reader.Host, InsecureSkipTLSVerify: true}
	config.AuthInfos["reader"] = &clientcmdapi.AuthInfo{Token: reader.BearerToken}
	config.Contexts["search"] = &clientcmdapi.Context{Cluster: "search", AuthInfo: "reader"}
	config.CurrentContext = "search"
	kubeconfig := filepath.Join(b.environment.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return "", err
	}
	console, err := b.environment.Start(framework.Command{
		Name: name, Path: b.environment.Binary("tripod"), Args: []string{"console", "--kubeconfig", kubeconfig},
	})
	if err != nil {
		return "", err
	}
	err = s.await(ctx, console, "the console prints its address", func() error {
		text, err := os.ReadFile(console.Log)
		if signIn = address.FindString(string(text)); err == nil && signIn == "" {
			err = errors.New("it has printed none")
		}
		return err
	})
	return signIn, err
}

// signIn signs a browser in.
func signIn(ctx context.Context, address string) (*browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	root, _, _ := strings.Cut(address, "sign-in")
	at := &browser{&http.Client{Jar: jar, Timeout: pageTimeout}, root}
	_, err = at.read(ctx, address)
	return at, err
}

// read returns a page.
func (b *browser) read(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text[:min(len(text), 2000)])
	}
	return text, err
}

// view reads a page again and again, with other values each time.
func (b *benchmark) view(ctx context.Context, at *browser, what viewing, apps int) (v viewed, err error) {
	v.Name = what.name
	var turn atomic.Int64
	do := func(ctx context.Context) error {
		n := int(turn.Add(1))
		text, err := at.read(ctx, at.root+what.path(n, apps, b.clusters))
		if shown := what.shows(n, apps); err == nil && !bytes.Contains(text, []byte(shown)) {
			err = fmt.Errorf("the page has no %q: %s", shown, text)
		}
		v.Bytes = len(text) // one request follows the other
		return err
	}
	load.Saturate(ctx, 1, b.duration/10, do)
	result := load.Saturate(ctx, 1, b.duration/2, do)
	if result.Error != nil {
		return v, fmt.Errorf("console: %s: %w", what.name, result.Error)
	}
	v.Requests, v.P50, v.P99 = result.Requests, result.Milliseconds(50), result.Milliseconds(99)
	return v, nil
}

// views measures the pages of the console, by HTTP and in Chromium.
func (b *benchmark) views(ctx context.Context, s *side, apps int, r *consoleReport) error {
	reader, err := s.reader(ctx)
	if err != nil {
		return err
	}
	address, err := b.startConsole(ctx, s, reader, "console")
	if err != nil {
		return err
	}
	at, err := signIn(ctx, address)
	if err != nil {
		return err
	}
	for _, what := range views {
		v, err := b.view(ctx, at, what, apps)
		if err != nil {
			return err
		}
		logf("console: %s: p50 %.1f ms, p99 %.1f ms, %d bytes", v.Name, v.P50, v.P99, v.Bytes)
		r.Views = append(r.Views, v)
	}
	// Only one browser can sign in at an address.
	if address, err = b.startConsole(ctx, s, reader, "console-chromium"); err != nil {
		return err
	}
	r.Shown, err = b.show(ctx, address, apps)
	return err
}
