// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestErrorLine(t *testing.T) {
	for _, tc := range []struct {
		name, log, want string
	}{
		{"nothing", "", ""},
		{"a command of cobra", "some words\nError: unknown flag: --nope\n", "unknown flag: --nope"},
		{"what comes after it does not matter", "Error: no\nUsage:\n", "no"},
		{"a command of Kubernetes", `I1121 05:00:00.000000      17 server.go:1] Version: v1.36.3
E1121 05:00:00.000001      17 run.go:72] "command failed" err="open \"ca.crt\": no such file"
`, `open "ca.crt": no such file`},
		{"a command of Kubernetes with several errors", "E1121 05:00:00.000001      17 run.go:72] \"command failed\" err=<\n\t[first,\n\tsecond]\n >\n",
			"[first, second]"},
		{"JSON", `{"ts":1,"msg":"starting"}` + "\n" + `{"ts":2,"msg":"command failed","err":"no key"}` + "\n", "no key"},
		{"fatal in klog", "F1121 05:00:00.000001      17 hooks.go:203] PostStartHook \"rbac\" failed\n", `PostStartHook "rbac" failed`},
		{"panic", "panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n", "panic: nil map"},
		{"runtime", "fatal error: out of memory\n\ngoroutine 1:\n", "fatal error: out of memory"},
		{"no reason given", "I1121 05:00:00.000000      17 server.go:1] one\nW1121 05:00:00.000000      17 server.go:1] two\n\n", "two"},
		{"GNU", "sleep: unrecognized option '--replica'\nTry 'sleep --help' for more information.\n", "sleep: unrecognized option '--replica'"},
		{"long lines are cut", "Error: " + strings.Repeat("x", 2*maxLineLength), strings.Repeat("x", maxLineLength) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, errorLine(strings.Split(tc.log, "\n")))
		})
	}
}
