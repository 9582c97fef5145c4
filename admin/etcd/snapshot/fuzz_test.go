// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzVerify accepts a file only if it is pages and their hash.
func FuzzVerify(f *testing.F) {
	page := make([]byte, 512)
	whole := sha256.Sum256(page)
	f.Add(append(page, whole[:]...), false)
	f.Add(make([]byte, 32), true)
	f.Add([]byte("not a snapshot"), true)
	path := filepath.Join(f.TempDir(), "snapshot.db")
	f.Fuzz(func(t *testing.T, content []byte, hashed bool) {
		if hashed {
			sum := sha256.Sum256(content)
			content = append(content, sum[:]...)
		}
		require.NoError(t, os.WriteFile(path, content, 0o600))
		size, hash, err := verify(path)
		require.Equal(t, hashed && len(content)%512 == sha256.Size, err == nil && hashed, "%v", err)
		if err == nil {
			require.EqualValues(t, len(content), size)
			require.Len(t, hash, 2*sha256.Size)
		}
	})
}

// FuzzName recognises the files of a name, and of no other: pruning removes them.
func FuzzName(f *testing.F) {
	f.Add("tripod-etcd", int64(0), "tripod-etcd-extensions")
	f.Add("", int64(1e9), "a-20250101T000000Z.db")
	f.Fuzz(func(t *testing.T, name string, seconds int64, other string) {
		at := time.Unix(seconds, 0).UTC()
		if at.Year() < 0 || at.Year() > 9999 {
			return
		}
		file := fileName(name, at)
		require.True(t, isSnapshot(file, name))
		if isSnapshot(file, other) {
			require.Equal(t, name, other)
		}
		if isSnapshot(other, name) {
			require.True(t, strings.HasPrefix(other, name+"-") && strings.HasSuffix(other, extension))
		}
	})
}
