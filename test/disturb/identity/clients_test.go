// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// get returns the code of the answer to a read.
func get(ctx context.Context, config *rest.Config, path string) (int, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	code, _, err := fetch(ctx, client, config.Host+path)
	return code, err
}

func fetch(ctx context.Context, client *http.Client, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// answers returns nil when the answer at a URL has that code and all of the texts.
func answers(ctx context.Context, url string, code int, texts ...string) error {
	got, body, err := fetch(ctx, http.DefaultClient, url)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if got != code || !strings.Contains(body, text) {
			return fmt.Errorf("the answer is %d, %s, without %q", got, body, text)
		}
	}
	return nil
}

// clientOf returns a client of a replica of core, for a user who may do everything.
func clientOf(t *testing.T, fleet *framework.Fleet, core string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(fleet.As(core, framework.Master))
	require.NoError(t, err)
	return client
}

// newToken returns a token of a new ServiceAccount, and how to end it.
func newToken(t *testing.T, client kubernetes.Interface) (token string, end func(kubernetes.Interface)) {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts("default")
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "robot-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	issued, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return issued.Status.Token, func(client kubernetes.Interface) {
		require.NoError(t, client.CoreV1().ServiceAccounts("default").Delete(t.Context(), account.Name, metav1.DeleteOptions{}))
	}
}

// becomes returns when reads of a path by a user give a code.
func becomes(t *testing.T, what string, config *rest.Config, path string, want int) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	framework.Eventually(t, fmt.Sprintf("%s gets %d", what, want), func(ctx context.Context) error {
		code, body, err := fetch(ctx, client, config.Host+path)
		if err == nil && code != want {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
}
