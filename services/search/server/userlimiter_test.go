// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestAUserHasSomeSearchesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newUserLimiter(searchesOfUser)
		of := func(name string) context.Context { return request.WithUser(t.Context(), &user.DefaultInfo{Name: name}) }
		var releases []func()
		for range searchesOfUser {
			release, err := all.acquire(of("greedy"), queueTimeout)
			require.NoError(t, err)
			releases = append(releases, release)
		}
		_, err := all.acquire(of("greedy"), queueTimeout)
		assert.True(t, apierrors.IsTooManyRequests(err))
		gone, cancel := context.WithCancel(of("greedy"))
		cancel()
		_, err = all.acquire(gone, queueTimeout)
		require.ErrorIs(t, err, context.Canceled)

		release, err := all.acquire(of("other"), queueTimeout)
		require.NoError(t, err, "others have slots of their own")
		release()
		releases[0]()
		again, err := all.acquire(of("greedy"), queueTimeout)
		require.NoError(t, err)
		for _, release := range append(releases[1:], again) {
			release()
		}
		assert.Empty(t, all.users)
	})
}

func TestServiceAccountsOfANamespaceShareTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newUserLimiter(1)
		release, err := all.acquire(asUser(t, "system:serviceaccount:team:one"), queueTimeout)
		require.NoError(t, err)
		defer release()
		_, err = all.acquire(asUser(t, "system:serviceaccount:team:two"), queueTimeout)
		assert.True(t, apierrors.IsTooManyRequests(err))
		other, err := all.acquire(asUser(t, "system:serviceaccount:others:one"), queueTimeout)
		require.NoError(t, err)
		other()
	})
}
