// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse merges any report that a backend may give of its health into that of the aggregator, whose own checks stay what they are. What is shown
// reads again as the same list.
func FuzzParse(f *testing.F) {
	f.Add("[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n", "etcd")
	f.Add("[+]log excluded: ok\n[+]a excluded with b: ok\r\n[-]\n[+]", "b")
	f.Fuzz(func(t *testing.T, answer, excluded string) {
		const own = "[+]ping ok\n[+]own ok\n"
		l := newList([]string{excluded})
		l.addOwn(parse(own))
		l.addBackend("extensions", parse(answer))
		shown := l.String()
		require.True(t, strings.HasPrefix(shown, "[+]ping ok\n"), "%q", shown)
		again := parse(shown)
		require.Len(t, again, len(l.lines))
		for i, one := range again {
			require.Equal(t, l.lines[i].name, one.name)
			require.Equal(t, l.lines[i].fine, one.fine)
		}
		for _, one := range l.lines[2:] {
			require.True(t, one.fine || strings.HasSuffix(one.text, ", ignored"), "a check of a backend counts: %q", one.text)
		}
	})
}
