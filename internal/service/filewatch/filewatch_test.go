// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestChangesOfAnyFileAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		do := func(err error) {
			assert.NoError(t, err)
		}
		do(os.WriteFile(a, []byte("1"), 0o600))
		w, changes := New(a, b), 0
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx, func() { changes++ })
		for _, step := range []struct {
			name   string
			change func()
			want   int
		}{
			{"nothing", func() {}, 0},
			{"the same content", func() { do(os.WriteFile(a, []byte("1"), 0o600)) }, 0},
			{"a file comes", func() { do(os.WriteFile(b, []byte("2"), 0o600)) }, 1},
			{"both change", func() { do(os.WriteFile(a, []byte("3"), 0o600)); do(os.WriteFile(b, []byte("3"), 0o600)) }, 2},
			{"a file goes", func() { do(os.Remove(b)) }, 2},
			{"it comes back as it was", func() { do(os.WriteFile(b, []byte("3"), 0o600)) }, 2},
		} {
			step.change()
			time.Sleep(2 * interval)
			synctest.Wait()
			if changes != step.want {
				t.Errorf("%s: %d changes, want %d", step.name, changes, step.want)
			}
		}
	})
}
