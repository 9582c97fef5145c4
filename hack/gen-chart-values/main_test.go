// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPage(t *testing.T) {
	got, err := page([]byte(`# Copyright
# SPDX-License-Identifier: Apache-2.0

# -- What a name is, as in ` + "`a|b`" + `,
# on two lines.
name: ""

# Something that has parts.
part:
  # -- How many.
  count: 1
  # Not for readers of the page.
  hidden: "{}"
  below:
    # -- A list.
    list: [a, {b: c}]
    plain: {}
  # -- One value.
  resources:
    requests: {cpu: 10m}
`))
	require.NoError(t, err)
	const table = "| value | default | |\n|---|---|---|\n"
	want := intro + "\n" + table +
		"| `name` | `\"\"` | What a name is, as in `a\\|b`, on two lines. |\n" +
		"\n## part\n\nSomething that has parts.\n\n" + table +
		"| `part.count` | `1` | How many. |\n" +
		"| `part.hidden` | `\"{}\"` |  |\n" +
		"| `part.below.list` | `[a, {b: c}]` | A list. |\n" +
		"| `part.below.plain` | `{}` |  |\n" +
		"| `part.resources` | `{requests: {cpu: 10m}}` | One value. |\n"
	assert.Equal(t, want, got, "page")
}

func TestNoYAML(t *testing.T) {
	if _, err := page([]byte("a: [")); err == nil {
		t.Error("no error")
	}
}
