// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// TestAConnectionFromBeforeThePoolerWasFoundIsMadeAnew has a connection that was configured while none had found the pooler.
func TestAConnectionFromBeforeThePoolerWasFoundIsMadeAnew(t *testing.T) {
	storetest.Need(t, "postgres")
	server, err := storetest.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop() })
	config, err := pgx.ParseConfig(server.URL("postgres"))
	require.NoError(t, err)
	var p pooler
	look := func() error {
		c := config.Copy()
		p.configure(c)
		conn, err := pgx.ConnectConfig(t.Context(), c)
		require.NoError(t, err)
		defer conn.Close(t.Context())
		return p.look(t.Context(), conn)
	}
	require.NoError(t, look())
	early := config.Copy()
	p.configure(early)
	p.found.Store(true)
	conn, err := pgx.ConnectConfig(t.Context(), early)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.ErrorIs(t, p.look(t.Context(), conn), driver.ErrBadConn)
	assert.NoError(t, look(), "the next one prepares no statements")
}
