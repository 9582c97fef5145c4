// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
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
	}, nameActors.find("a.go", commentsOf([]byte(source))))
	assert.Equal(t, []string{`a.md:2: "Nobody": name the user, client, service or replica`},
		nameActors.find("a.md", []byte("# Others\nNobody there, and theirs is here.\n")))
}

func TestProgramsDoNotTalk(t *testing.T) {
	const remedy = "say what the program does: report, send, receive, trust, distinguish"
	assert.Equal(t, []string{`a.md:1: "tells": ` + remedy, `a.md:2: "heard": ` + remedy},
		nameActions.find("a.md", []byte("Core tells aggregators.\nThey have heard: a hearsay of tellers.\n")))
}

func TestRulesHoldForFilesWithProse(t *testing.T) {
	pages, scripts := []rule{nameActors, nameActions}, []rule{nameActors}
	for file, want := range map[string][]rule{
		"docs/a.md": pages, "internal/a.go": pages, "proto/a.proto": pages, "docs/design/a.md": scripts, "proto/a.pb.go": scripts,
		"hack/a.sh": scripts, "make/a.mk": scripts, "Makefile": scripts, "tools/go.mod": scripts, ".ci/run": scripts, "a/templates/a.yaml": pages,
		"a/templates/_a.tpl": pages, ".github/a.yml": pages, "a.tmpl": pages,
		"internal/a_test.go": pages, "internal/zz_generated.a.go": scripts, "CODE_OF_CONDUCT.md": nil, "e2e/testdata/run": nil, "docs/a.svg": nil,
	} {
		var text []byte
		if path.Base(file) == "run" {
			text = []byte("#!/usr/bin/env bash\n")
		}
		assert.Equal(t, want, rulesOf(file, text), file)
	}
}
