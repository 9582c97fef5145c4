// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCommandsOfPages(t *testing.T) {
	page := "Run `make a` or `go test ./b`, not `make`.\n\n    FUZZ_ARGS=-x make fuzz   # with one processor\n    # nothing\n\n```\n$ make c\nsays this\n```\n" +
		"`TEST=1` makes it an error, as `hack/x.yaml` says.\n"
	assert.Equal(t, []string{"make c", "says this", "FUZZ_ARGS=-x make fuzz", "make a", "go test ./b"}, commandsOf(page))
}

func TestTargetsThatDoNotExist(t *testing.T) {
	targets := []string{"build", "test-unit"}
	assert.Empty(t, missingTarget("make build test-unit TESTS='./x'", targets))
	assert.Empty(t, missingTarget("X=1 make build", targets))
	assert.Empty(t, missingTarget("go build", targets))
	assert.Contains(t, missingTarget("make build tset", targets), "tset")
}

func TestCommandsThatCannotWork(t *testing.T) {
	t.Chdir("../..")
	assert.Empty(t, wrongCommand("CGO_ENABLED=0 go test -run 'TestCommands|TestX' ./hack/check-docs && git stash; go test -run '^$' ./hack/..."))
	assert.Empty(t, wrongCommand("go test -run 'TestCommandsThat' ./hack/..."))
	assert.Contains(t, wrongCommand("go test ./no-such-package"), "no such package")
	assert.Contains(t, wrongCommand("go run ./no-such-package -x"), "no such package")
	assert.Contains(t, wrongCommand("go test -bench 'Gone' ./hack/check-docs"), "matches Gone")
	assert.Contains(t, wrongCommand("git stash; frobnicate x"), "frobnicate")
	assert.Contains(t, wrongCommand("echo 'x"), "parse")
}

func TestToursNameFilesThatExist(t *testing.T) {
	source := "// Package x: main.go and commands.go, see ../check-docs/tours.go.\npackage x // gone.go\n// server/lost.go, gone.go\n// tools/nowhere does it.\n"
	assert.Equal(t, []string{"server/lost.go", "gone.go", "tools/nowhere"}, missing(".", source))
}

func TestReasonsAreNamesThatAreTextsOfTheirOwn(t *testing.T) {
	got := reasonsIn(`set(v1.Ready, false, "NotReady", "the cluster is not Ready"); object.SetKind("PediaCluster"); return "WaitResourceSynced"; "resource"; "NotReady"`)
	assert.Equal(t, []string{"NotReady", "WaitResourceSynced"}, got)
}

// A package that was renamed must not end the check of its reasons in silence.
func TestAPackageWithoutReasonsIsAProblem(t *testing.T) {
	t.Chdir(t.TempDir())
	problems, err := checkReasons(nil)
	if err != nil || len(problems) != len(conditionsOf) || !strings.Contains(problems[0], "found no reasons of conditions in "+conditionsOf[0]) {
		t.Errorf("got %v, %v", problems, err)
	}
}
