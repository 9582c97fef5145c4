// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestNewestVersions(t *testing.T) {
	versions := strings.Fields("v1.36.9 v1.37.10 v1.37.2 v1.37.9 v1.38.0 v1.38.1 v1.39.0-alpha.2 v1.39.0-beta.0 v1.37.11-rc.0 v2.0.0-foo")
	for kind, want := range map[string]string{"patch": "v1.37.10", "minor": "v1.38.1", "pre-release": "v1.39.0-beta.0"} {
		if got := choose(kind, "v1.37.2", versions); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
		if got := choose(kind, "v1.40.0", versions); got != "v1.40.0" {
			t.Errorf("%s: %s, which is older than the version in use", kind, got)
		}
	}
	if _, err := newestOf("best"); err == nil || !strings.Contains(err.Error(), "patch, minor, pre-release") {
		t.Errorf("error %v", err)
	}
}
