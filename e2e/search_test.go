// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestSearch adds search with PostgreSQL and the console to the release, asks both, replaces the pods of search and the database, and removes all again.
func TestSearch(t *testing.T) {
	r := shared(t)
	user := newUser(t, r)
	user.kubectl("", "create", "deployment", "before", "--image=example.com/app:v1")
	require.NoError(t, env.Volume(t.Context(), "tripod-search"))
	image, err := env.Postgres()
	require.NoError(t, err)
	search := func(enabled bool) release.Values {
		return release.Values{"console": release.Values{"enabled": enabled}, "search": release.Values{
			"enabled": enabled, "serve": release.Values{"replicas": 2},
			"database": release.Values{
				"postgres": release.Values{"enabled": enabled, "image": image}, "storageClassName": environment.VolumeClass, "size": "1Gi",
			},
		}}
	}
	finds := func(name string) {
		framework.Eventually(t, "search finds "+name, func(ctx context.Context) error {
			out, err := r.Kubectl(ctx, "", "get", "--raw", "/apis/clusterpedia.io/v1beta1/resources/apis/apps/v1/namespaces/"+user.namespace+"/deployments?names="+name)
			if err == nil && !strings.Contains(out, "shadow.clusterpedia.io/cluster-name") {
				err = fmt.Errorf("got %s", out)
			}
			return err
		})
	}
	host := func(args ...string) error {
		_, err := r.HostKubectl(t.Context(), "", args...)
		return err
	}
	progress.Require(t, "helm adds search", func() error { return r.Upgrade(t.Context(), search(true)) })
	finds("before")
	progress.Require(t, "a user signs in to the console", func() error { return signIn(t, user) })
	progress.Require(t, "the pods of search are replaced", func() error {
		return errors.Join(host("rollout", "restart", "deployment/tripod-search", "deployment/tripod-search-sync"),
			r.Settled(t.Context(), "search"), r.Settled(t.Context(), "search-sync"))
	})
	progress.Require(t, "the pod of the database is replaced", func() error {
		return errors.Join(host("delete", "pod", "tripod-search-database-0"),
			host("rollout", "status", "statefulset/tripod-search-database", "--timeout=2m"))
	})
	user.kubectl("", "create", "deployment", "after", "--image=example.com/app:v1")
	finds("before")
	finds("after")
	progress.Require(t, "helm removes search", func() error { return r.Upgrade(t.Context(), search(false)) })
}

// signIn signs a ServiceAccount in to the console, and returns an error unless the console reads as that account.
func signIn(t *testing.T, u *user) error {
	u.kubectl("", "create", "serviceaccount", "reader")
	token := strings.TrimSpace(u.kubectl("", "create", "token", "reader").out)
	if err := u.release.Settled(t.Context(), "console"); err != nil {
		return err
	}
	pods, err := u.release.Pods(t.Context(), "console")
	if err != nil {
		return err
	}
	address, stop, err := u.release.Forward(t.Context(), pods[0].Name, 8443)
	if err != nil {
		return err
	}
	defer stop()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/sign-in", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return err
	}
	req.Host = "localhost:8443"
	req.Header.Set("Origin", "https://"+req.Host)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := client.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(page), "You read as <strong>system:serviceaccount:"+u.namespace+":reader") {
		err = fmt.Errorf("the console answers %s: %s", response.Status, page)
	}
	return err
}
