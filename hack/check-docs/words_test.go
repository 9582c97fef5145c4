// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestActorsHaveNames(t *testing.T) {
	const source = `// Package a answers Who asks.
package a

// of is for the heir of this.
const nobody = "nobody" /* nobody
 reads his book */ // whoever
`
	assert.Equal(t, []string{
		`a.go:1: "Who asks": name the user, client, service or replica`,
		`a.go:5: "nobody": name the user, client, service or replica`,
		`a.go:6: "his": name the user, client, service or replica`,
		`a.go:6: "whoever": name the user, client, service or replica`,
	}, unnamedIn("a.go", commentsOf([]byte(source))))
	assert.Equal(t, []string{`a.md:2: "Nobody": name the user, client, service or replica`},
		unnamedIn("a.md", []byte("# Others\nNobody there, and theirs is here.\n")))
}
