// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// PgBouncer returns the URL of a database of PostgreSQL behind a PgBouncer that gives each transaction another connection. It skips the
// test if the machine has no PgBouncer.
func PgBouncer(t *testing.T, database string) string {
	t.Helper()
	Need(t, "pgbouncer")
	path, err := pgbouncer.find()
	require.NoError(t, err)
	location, err := url.Parse(database)
	require.NoError(t, err)
	dir, as, err := folder()
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // it is temporary
	port, err := freePort()
	require.NoError(t, err)
	file := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
server_round_robin = 1
`, location.Hostname(), location.Port(), location.User.Username(), port), 0o644))
	server := program{dir: dir, as: as, path: path, args: []string{file}}
	cmd, err := server.start()
	require.NoError(t, err)
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	location.Host = "127.0.0.1:" + port
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", location.Host)
		return err == nil && conn.Close() == nil
	}, time.Minute, 10*time.Millisecond)
	return location.String()
}
