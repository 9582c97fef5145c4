// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBackendsFile loads what is accepted again after it was written.
func FuzzBackendsFile(f *testing.F) {
	f.Add([]byte(`{"core": {"servers": ["https://h:1"], "grpc": ["h:2"]}, "extensions": {"servers": ["dns:///h:1"]}}`))
	f.Add([]byte("core: &a {servers: [\"https://[::1]:2\"]}\nextensions: *a\naggregator: {servers: [\"https://h\"]}\n"))
	f.Add([]byte(`{"core": {"servers": ["https://h:1"]}, "extensions": {"servers": ["https://h:1"]}, "services": {"a": {"servers": ["https://h:2"], "balance": "rendezvous"}}}`))
	path := filepath.Join(f.TempDir(), "backends.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parse("file", data)
		if err != nil {
			return
		}
		require.NoError(t, b.Write(path))
		again, err := LoadBackends(path)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

// FuzzLocation accepts only what can be dialled, and reads its own form as the same.
func FuzzLocation(f *testing.F) {
	for _, at := range []string{"https://h:1", "https://[::1%25a]:2/", "dns:///h:1", "h:1", "https://h:", "https://h:70000", "https://u@h", "https://h?", "[::1]:2"} {
		f.Add(at)
	}
	f.Fuzz(func(t *testing.T, at string) {
		if l, err := OfServer(at); err == nil {
			dialled(t, l)
		}
		if l, err := OfGRPC(at); err == nil {
			dialled(t, l)
			again, err := OfGRPC(strings.Repeat(namePrefix, map[bool]int{true: 1}[l.IsName]) + l.Address())
			require.NoError(t, err)
			require.Equal(t, l, again)
		}
	})
}

func dialled(t *testing.T, l Location) {
	t.Helper()
	host, port, err := net.SplitHostPort(l.Address())
	require.NoError(t, err)
	require.Equal(t, l.Host, host)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	require.NotZero(t, number)
	require.NotEmpty(t, host)
}
