// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A line of a text begins with as many blanks as its depth has.
func TestYAMLOfTextsIsSmall(t *testing.T) {
	for name, line := range map[string]string{
		"line breaks": `x\n`, "returns": `x\r\n`, "blanks": "x ", "long words": strings.Repeat("x", 70) + " ", "separators": `\n` + "\u2028",
		"next lines": `\n` + "\u0085", "escaped separators": `\n\u2028`, "tabs": `x\t \n`, "quotes": `\" `, "commas": "x, ",
	} {
		t.Run(name, func(t *testing.T) {
			for depth := 1; depth < 250; depth += 31 {
				text := strings.Repeat(line, 300_000/len(line))
				object := strings.Repeat(`{"a":`, depth) + `"` + text + `"` + strings.Repeat("}", depth)
				got, err := asYAML(t.Context(), []byte(object))
				require.NoError(t, err)
				assert.Less(t, len(got), 4*len(object)+2*mostIndent, "depth %d", depth)
			}
		})
	}
}
