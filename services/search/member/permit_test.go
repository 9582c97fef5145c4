// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// TestAMemberWithoutPaceWaitsBehindOthers has two members stop in a large object, beside one that does not.
func TestAMemberWithoutPaceWaitsBehindOthers(t *testing.T) {
	door := newDoor(t, nil)
	door.patience = time.Hour // the test looks
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, second, honest := door.entrance(), door.entrance(), door.entrance()
	lost := 0
	end := func(err error) {
		lost++
		assert.True(t, isLimit(err))
		assert.False(t, isTooMuch(err), "a slow member has not sent too much")
	}
	one, err := first.holdLarge(t.Context(), end)
	require.NoError(t, err)
	one.look()
	one.look()
	assert.Zero(t, lost, "one may be slow")
	two, err := second.holdLarge(t.Context(), end)
	require.NoError(t, err)
	two.look()
	assert.Equal(t, 1, lost)
	two.release()
	_, err = second.holdLarge(ended, end)
	require.Error(t, err, "it waits for the slow one")
	quick, err := honest.holdLarge(t.Context(), end)
	require.NoError(t, err)
	for range 3 {
		quick.came(int(pace * door.patience.Seconds()))
		quick.look()
	}
	quick.complete()
	quick.look()
	assert.Equal(t, 1, lost, "it has kept its pace")
	quick.release()
	quick.release()
	one.release()
	two, err = second.holdLarge(t.Context(), end)
	require.NoError(t, err)
	two.look()
	assert.Equal(t, 1, lost)
	two.release()
	for _, permits := range []chan struct{}{door.large, door.slow, first.ownLong, second.ownLong, honest.ownLong} {
		assert.Empty(t, permits)
	}
}

// A member is not slow because search has no processor for what it sends.
func TestTheTimeOfSearchIsNotThatOfTheMember(t *testing.T) {
	door := newDoor(t, nil)
	door.patience = time.Hour // the test looks
	other, honest := door.entrance(), door.entrance()
	slow, err := other.holdLarge(t.Context(), nil)
	require.NoError(t, err)
	slow.look()
	permit, err := honest.holdLarge(t.Context(), func(err error) { t.Error(err) })
	require.NoError(t, err)
	permit.works(true)
	permit.since = time.Now().Add(-time.Hour)
	permit.look()
	permit.since = time.Now().Add(-40 * time.Minute)
	permit.works(false)
	permit.look()
	assert.Nil(t, honest.lostPace.Load())
	lost := false
	permit.lost = func(error) { lost = true }
	permit.look()
	assert.True(t, lost, "now the member had all the time")
	permit.release()
	slow.release()
}

// TestMembersThatStopInLargeObjectsKeepNoOtherWaiting has many members take what all need to read large objects, documents and discovery, and then stop.
func TestMembersThatStopInLargeObjectsKeepNoOtherWaiting(t *testing.T) {
	large := strings.Repeat("x", 2*smallObject)
	for name, test := range map[string]struct {
		begin string
		ask   func(ctx context.Context, m *Member)
	}{
		"objects": {`{"items":[{"a":"` + large, func(ctx context.Context, m *Member) {
			m.source().page(ctx, "", func(i item) error { i.done(); return nil }) //nolint:errcheck // it fails
		}},
		"documents": {`{"a":"`, func(ctx context.Context, m *Member) {
			m.read(ctx, openAPI, "", func([]byte) error { return nil }) //nolint:errcheck // it fails
		}},
		"discovery": {`{"kind":"` + strings.Repeat("x", largeDiscovery), func(ctx context.Context, m *Member) {
			m.discover(ctx) //nolint:errcheck // it fails
		}},
	} {
		t.Run(name, func(t *testing.T) {
			honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[{"a":"%s"},{"a":"%s"},{"a":"%s"}]}`, large, large, large)
			}))
			defer honest.Close()
			door := newDoor(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), door.Timeout-5*time.Second)
			liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				io.WriteString(w, test.begin) //nolint:errcheck // the client is gone
				w.(http.Flusher).Flush()
				select {
				case <-req.Context().Done():
				case <-ctx.Done(): // discovery does not end by its context
				}
			}))
			defer liar.Close()
			done := make(chan struct{})
			const liars = 4
			for range liars {
				m, err := New("liar", &rest.Config{Host: liar.URL}, Everything, Shared{Store: new(store.Store), Door: door})
				require.NoError(t, err)
				go func() {
					for ctx.Err() == nil {
						test.ask(ctx, m)
					}
					done <- struct{}{}
				}()
			}
			defer func() {
				cancel()
				for range liars {
					<-done
				}
			}()
			require.Eventually(t, func() bool { return len(door.large) == cap(door.large) }, time.Minute, time.Millisecond, "the liars have all")
			m := newMember(t, &rest.Config{Host: honest.URL}, nil)
			m.door.Door = door
			_, _, count, err := m.source().page(ctx, "", func(i item) error { i.done(); return nil })
			require.NoError(t, err)
			assert.Equal(t, 3, count)
		})
	}
}
