// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestEachReplicaHasOneFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, begun := map[string]bool{}, map[string]int{}
		set := func(address string, runs bool) {
			mu.Lock()
			defer mu.Unlock()
			if runs {
				begun[address]++
				running[address] = true
			} else {
				delete(running, address)
			}
		}
		each := NewEach(func(ctx context.Context, address string) {
			set(address, true)
			defer set(address, false)
			<-ctx.Done()
		})
		ctx, end := context.WithCancel(t.Context())
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, strings.Join(slices.Sorted(maps.Keys(running)), " "), "running")
		}
		each.Set(ctx, []string{"a", "b"})
		expect("a b")
		each.Set(ctx, []string{"b", "c"})
		expect("b c")
		each.Set(ctx, []string{"a", "b", "c"})
		expect("a b c")
		end()
		each.Wait()
		expect("")
		if want := map[string]int{"a": 2, "b": 1, "c": 1}; !maps.Equal(begun, want) {
			t.Errorf("begun %v, want %v", begun, want)
		}
	})
}
