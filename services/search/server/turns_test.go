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
		all := newTurns(searchesOfUser)
		of := func(name string) context.Context { return request.WithUser(t.Context(), &user.DefaultInfo{Name: name}) }
		var releases []func()
		for range searchesOfUser {
			release, err := all.take(of("greedy"), turnTimeout)
			require.NoError(t, err)
			releases = append(releases, release)
		}
		_, err := all.take(of("greedy"), turnTimeout)
		assert.True(t, apierrors.IsTooManyRequests(err))
		gone, cancel := context.WithCancel(of("greedy"))
		cancel()
		_, err = all.take(gone, turnTimeout)
		require.ErrorIs(t, err, context.Canceled)

		release, err := all.take(of("other"), turnTimeout)
		require.NoError(t, err, "others have turns of their own")
		release()
		releases[0]()
		again, err := all.take(of("greedy"), turnTimeout)
		require.NoError(t, err)
		for _, release := range append(releases[1:], again) {
			release()
		}
		assert.Empty(t, all.users)
	})
}

func TestServiceAccountsOfANamespaceShareTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		release, err := all.take(asUser(t, "system:serviceaccount:team:one"), turnTimeout)
		require.NoError(t, err)
		defer release()
		_, err = all.take(asUser(t, "system:serviceaccount:team:two"), turnTimeout)
		assert.True(t, apierrors.IsTooManyRequests(err))
		other, err := all.take(asUser(t, "system:serviceaccount:others:one"), turnTimeout)
		require.NoError(t, err)
		other()
	})
}
