// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"
	"testing"
	"time"
)

// lag is how far core-1 is behind while it is slow.
const lag = 2 * time.Second

// While a replica of core is behind, so are those that listen to it, and no others. They are not behind more than it.
func (f *fleet) revocationsAreAsLateAsTheCoreThatIsFollowed(t *testing.T) {
	client := f.promptly(t)
	defer f.slow.set(0)

	t.Run("bindings", func(t *testing.T) {
		f.slow.set(lag)
		revocations := f.revokeUnderLoad(t, bindings[0])
		// extensions-0 may follow either replica: it leaves one that fails probes, on a busy machine.
		withinLag(t, "extensions-0", revocations["extensions-0"])
		delete(revocations, "extensions-0")
		expectLag(t, revocations, "core-1", "extensions-1")
	})
	t.Run("tokens", func(t *testing.T) {
		kind := mortals[0]
		f.slow.set(lag)
		// aggregator-0 may follow either replica.
		revocations := f.endUnderLoad(t, kind.make(t, f, client), kind.make(t, f, client), kind.make(t, f, client))
		for name, r := range revocations {
			if strings.HasPrefix(name, "aggregator-0") {
				withinLag(t, name, r)
				delete(revocations, name)
			}
		}
		expectLag(t, revocations, "aggregator-1 for core resources", "aggregator-1 for custom resources")
	})
}

// expectLag expects that some let requests in until the lag is over, and the others refused before.
func expectLag(t testing.TB, revocations map[string]revocation, late ...string) {
	t.Helper()
	isLate := map[string]bool{}
	for _, name := range late {
		isLate[name] = true
	}
	for name, r := range revocations {
		t.Logf("%-36s %v", name, r)
		withinLag(t, name, r)
		if isLate[name] && r.lastAllowed.Sub(r.sent) < lag/2 {
			t.Errorf("%s is not late, so this test says nothing", name)
		}
		for _, other := range late {
			if !isLate[name] && !r.refused.Before(revocations[other].lastAllowed) {
				t.Errorf("%s was not earlier than %s", name, other)
			}
		}
	}
}

// withinLag expects that nothing was let in that began later than the lag allows. Half of it is for the machine.
func withinLag(t testing.TB, name string, r revocation) {
	t.Helper()
	if late := r.lastAllowed.Sub(r.sent); late > lag+lag/2 {
		t.Errorf("%s let in a request %s after the end was asked for", name, late)
	}
}
