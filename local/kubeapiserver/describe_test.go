// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import "testing"

func TestEveryRuleHasANote(t *testing.T) {
	for name := range routes {
		if notes[name] == "" {
			t.Errorf("no note explains --%s, which has a rule of its own", name)
		}
	}
	for name := range notes {
		if routes[name] == nil {
			t.Errorf("a note explains --%s, which has no rule of its own", name)
		}
	}
}
