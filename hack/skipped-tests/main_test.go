// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReasonsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    servers.go:90: mariadb is missing\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB/mariadb","Output":"        servers.go:90: mariadb is missing\n"}
{"Action":"skip","Package":"p","Test":"TestB/mariadb"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: it logs this, and passes\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"q"}
{"Action":"skip","Package":"q","Test":"TestC"}
`), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(path, &out))
	assert.Equal(t, `skipped 2 tests, such as TestA: mariadb is missing
skipped 1 test, such as TestC: no reason
`, out.String())
}

func TestReasonsFitOnAScreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.json")
	var events bytes.Buffer
	for i := range shown + 2 {
		fmt.Fprintf(&events, `{"Action":"output","Package":"p","Test":"Test%d","Output":"    a_test.go:1: reason %d\n"}`+"\n", i, i)
		fmt.Fprintf(&events, `{"Action":"skip","Package":"p","Test":"Test%d"}`+"\n", i)
	}
	require.NoError(t, os.WriteFile(path, events.Bytes(), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(path, &out))
	assert.Equal(t, shown+1, strings.Count(out.String(), "\n"))
	assert.Contains(t, out.String(), "2 more reasons are in "+path)
}

// gotestsum runs a package whose TestMain failed once more, without tests.
func TestAPackageThatFailedOutsideOfItsTestsFailsTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
{"Action":"start","Package":"q"}
{"Action":"output","Package":"q","Output":"cannot start a cluster\n"}
{"Action":"fail","Package":"q"}
{"Action":"start","Package":"p"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
{"Action":"start","Package":"q"}
{"Action":"output","Package":"q","Output":"ok q [no tests to run]\n"}
{"Action":"pass","Package":"q"}
`), 0o600))
	require.EqualError(t, run(path, &bytes.Buffer{}), "failed outside of their tests, such as in TestMain, so that tests were not run: q")
}

func TestAnotherFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.json")
	require.NoError(t, os.WriteFile(path, []byte("ok p 0.1s\n"), 0o600))
	require.ErrorContains(t, run(path, &bytes.Buffer{}), path)
}
