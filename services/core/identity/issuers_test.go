// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func writeIssuers(t *testing.T, file string, urls ...string) {
	t.Helper()
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"
	for _, url := range urls {
		config += fmt.Sprintf("- issuer: {url: %q}\n", url)
	}
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
}

func TestChangesOfIssuersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newService(t, nil).config.Dependencies
		file := filepath.Join(t.TempDir(), "authentication.yaml")
		writeIssuers(t, file, "https://a", "https://b")
		changed := d.reportIssuers(file)
		for _, step := range []struct {
			name   string
			change func()
			want   string
		}{
			{"one goes and one comes", func() { writeIssuers(t, file, "https://b", "https://c") }, "https://a https://b https://c"},
			{"one stays", func() { writeIssuers(t, file, "https://b") }, "https://b https://c"},
		} {
			received := d.invalidations.last()
			step.change()
			changed()
			news, _ := d.invalidations.since(received)
			ids := map[string]bool{}
			for _, i := range news {
				ids[i.GetDependency().GetId()] = true
			}
			if got := strings.Join(slices.Sorted(maps.Keys(ids)), " "); got != step.want {
				t.Errorf("%s: changes of %q were reported, want %q", step.name, got, step.want)
			}
			if !d.unsettled() {
				t.Errorf("%s: it is settled at once", step.name)
			}
		}
		time.Sleep(settleTime)
		if d.unsettled() {
			t.Error("it is never settled")
		}
	})
}
