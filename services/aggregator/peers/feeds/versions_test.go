// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

func TestReplicasOfAnotherVersionAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _ := followReplicas(t, "a", "b", "c")
		of := func(binary, emulated string) *backendv1.Settings {
			return &backendv1.Settings{BinaryVersion: binary, EmulationVersion: emulated}
		}
		say := func(address string, settings *backendv1.Settings) {
			b.replicas[address].say(&backendv1.WatchResponse{Phase: serving, Settings: settings})
			synctest.Wait()
		}
		held := func(want ...string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, b.heldBack())
			err := f.config.Versions.Agree()
			if len(want) == 0 {
				require.NoError(t, err)
				return
			}
			for _, address := range want {
				require.ErrorContains(t, err, "extensions at "+address+" gets no requests: ")
			}
		}
		say("a", of("1.36.3", "1.35"))
		say("b", of("1.35.4", "1.35"))
		held()
		// It is next to this aggregator, and not to b.
		say("c", of("1.37.2", "1.35"))
		held("c")
		require.ErrorContains(t, f.config.Versions.Agree(), "it is of Kubernetes 1.37.2, and the others are of 1.35 and 1.36")
		say("c", nil)
		held("c")

		// A feed that is lost reports nothing new about its own replica, and others need not fit to it.
		b.replicas["c"].die(false)
		held("c")
		b.replicas["b"].die(true)
		time.Sleep(time.Second)
		say("c", of("1.37.2", "1.36"))
		held()
		say("c", of("1.37.2", "1.37"))
		held("c")
		b.set("a", "b")
		synctest.Wait()
		require.NoError(t, f.config.Versions.Agree())
		assert.NotContains(t, f.config.Versions.reported, "extensions at c")
	})
}
