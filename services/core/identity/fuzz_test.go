// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// FuzzToken takes anything that a client may send as a token. The authenticators see just that token. For a user who only claims to be of
// an object that core does not know, no answer promises that core reports a revocation.
func FuzzToken(f *testing.F) {
	for _, token := range []string{
		"static-token", "abcdef.0123456789abcdef", " a, b ", "é\x00", strings.Repeat("x", 5000),
		// {"alg":"none"} and {"iss":"https://kubernetes.default.svc","exp":1,"kubernetes.io":{"namespace":"a","serviceaccount":{"name":"b","uid":"c"},"pod":{}}}
		"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMiLCJleHAiOjEsImt1YmVybmV0ZXMuaW8iOnsibmFtZXNwYWNlIjoiYSIsInNlcnZpY2VhY2NvdW50Ijp7Im5hbWUiOiJiIiwidWlkIjoiYyJ9LCJwb2QiOnt9fX0.",
	} {
		f.Add(token, "jane", "1")
		f.Add(token, "system:serviceaccount:a:b", "c")
		f.Add(token, "system:bootstrap:abcdef", "")
	}
	o := kubeoptions.NewBuiltInAuthenticationOptions().WithServiceAccounts()
	o.ServiceAccounts.Issuers = []string{ownIssuer}
	dependencies, err := Follow(informers.NewSharedInformerFactory(fake.NewClientset(), 0), o.ServiceAccounts)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token, name, uid string) {
		if token == "" || !utf8.ValidString(token) {
			return // not in a message
		}
		var seen string
		recording := authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
			seen = token
			return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
		})
		_, ok, err := websocket.NewProtocolAuthenticator(recording).AuthenticateRequest(requestWithToken(t.Context(), token))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, token, seen)

		found := dependencies.factsOf(token, &user.DefaultInfo{Name: name, UID: uid})
		require.LessOrEqual(t, len(found.dependencies), 4)
		switch found.kind {
		case serviceAccountToken:
			require.True(t, strings.HasPrefix(name, "system:serviceaccount:"))
			require.False(t, found.complete, "no object is known")
		case bootstrapToken:
			require.True(t, strings.HasPrefix(name, "system:bootstrap:"))
			require.False(t, found.complete, "no object is known")
		}
	})
}
