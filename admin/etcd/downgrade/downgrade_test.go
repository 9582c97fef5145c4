// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package downgrade

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/etcd/embedded/embeddedtest"
)

// giveUp ends a wait that would never end.
const giveUp = 2 * time.Minute

// minor returns a minor version of etcd: add 0 is that of the server.
func minor(add int) string {
	own := version.MustParseSemantic(embedded.Version)
	return fmt.Sprintf("%d.%d", own.Major(), int(own.Minor())+add)
}

func start(t *testing.T) *clientv3.Client {
	t.Helper()
	url, _ := embeddedtest.Start(t, embedded.Options{DataDir: t.TempDir(), LogLevel: "error"})
	client, err := access.Connect([]string{url}, "", "", "")
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// awaitOwn waits until etcd stores the form of its own version.
func awaitOwn(t *testing.T, client *clientv3.Client) {
	t.Helper()
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), askInterval, giveUp, true, func(ctx context.Context) (bool, error) {
		members, err := list(ctx, client)
		return err == nil && members[0].StorageVersion == minor(0)+".0", nil
	}))
}

func TestDataTakesTheFormOfTheVersionBefore(t *testing.T) {
	client := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	var lines []string
	for range 2 {
		members, err := Enable(ctx, client, minor(-1), func(line string) { lines = append(lines, line) })
		require.NoError(t, err)
		require.Len(t, members, 1)
		assert.Equal(t, minor(-1)+".0", members[0].StorageVersion)
		assert.Equal(t, embedded.Version, members[0].Version)
	}
	assert.Len(t, lines, 1, "the second run has nothing to do")
	for _, want := range []bool{true, false} {
		cancelled, err := Cancel(ctx, client)
		require.NoError(t, err)
		assert.Equal(t, want, cancelled)
		awaitOwn(t, client)
	}
}

// TestServersOfTheVersionHaveNothingToDo has etcd neither store another form nor allow that.
func TestServersOfTheVersionHaveNothingToDo(t *testing.T) {
	client := start(t)
	awaitOwn(t, client)
	members, err := Enable(t.Context(), client, minor(0), func(line string) { t.Error(line) })
	require.NoError(t, err)
	assert.True(t, Finished(members, minor(0)))
	assert.False(t, Finished(members, minor(-1)), "servers would have to be replaced")
	assert.False(t, members[0].goesBack)
}

func TestOtherVersionsAreRefused(t *testing.T) {
	client := start(t)
	awaitOwn(t, client)
	for target, want := range map[string]string{
		"": "is no version of etcd", "latest": "is no version of etcd", "3": "is no version of etcd",
		minor(-2): "only to the minor version before its own", minor(1): "only to the minor version before its own",
	} {
		_, err := Enable(t.Context(), client, target, func(string) {})
		assert.ErrorContains(t, err, want, "%q", target)
	}
	members, err := list(t.Context(), client)
	require.NoError(t, err)
	assert.Equal(t, minor(0)+".0", members[0].StorageVersion)
	assert.False(t, members[0].goesBack)
}

func TestTheTimeEnds(t *testing.T) {
	client := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Enable(ctx, client, minor(-1), func(string) {})
	assert.ErrorIs(t, err, context.Canceled)
}
