// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// ownSettings are the settings of the process that follows.
var ownSettings = &backendv1.Settings{BinaryVersion: "1.36.3", EmulationVersion: "1.36"}

func TestReplicasWithOtherSettingsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _ := followReplicas(t, "a", "b")
		other := &backendv1.Settings{BinaryVersion: "1.36.3", EmulationVersion: "1.36", FeatureGates: map[string]bool{"X": true}}
		expect := func(now, once string) {
			t.Helper()
			synctest.Wait()
			for what, tc := range map[string]struct {
				err  error
				want string
			}{"now": {f.Agree(), now}, "once": {f.AgreedOnce(), once}} {
				if tc.want == "" && tc.err != nil || tc.want != "" && (tc.err == nil || !strings.Contains(tc.err.Error(), tc.want)) {
					t.Errorf("%s: %v, want %q", what, tc.err, tc.want)
				}
			}
		}
		say := func(address string, settings *backendv1.Settings) {
			b.replicas[address].say(&backendv1.WatchResponse{Phase: serving, Settings: settings})
		}
		const differs = "extensions at a: feature gate X is false here and true there"

		expect("", "no replica of extensions has reported yet")
		say("a", other)
		expect(differs, differs)
		// Later messages do not repeat the settings.
		say("a", nil)
		expect(differs, differs)
		say("b", ownSettings)
		expect(differs, "")

		// Like every replica, it is restarted.
		b.replicas["a"].die(false)
		expect("", "")
		time.Sleep(time.Second)
		say("a", ownSettings)
		expect("", "")

		// It may report the difference again.
		say("a", other)
		expect(differs, "")
		say("a", ownSettings)
		expect("", "")

		// Settings that agreed once may change, replica by replica.
		b.replicas["b"].die(false)
		time.Sleep(time.Second)
		say("b", other)
		expect("extensions at b", "")
	})
}
