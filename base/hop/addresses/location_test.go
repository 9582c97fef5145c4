// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOfServer(t *testing.T) {
	for server, want := range map[string]string{
		"https://127.0.0.1:6444":                   "127.0.0.1:6444",
		"https://127.0.0.1:6444/":                  "127.0.0.1:6444",
		"https://host":                             "host:443",
		"https://[::1]:6444":                       "[::1]:6444",
		"dns:///core.tripod-system.svc:6443":       "name core.tripod-system.svc:6443",
		"dns:///[::1]:6443":                        "name [::1]:6443",
		"http://127.0.0.1:6444":                    "",
		"https://127.0.0.1:6444/path":              "",
		"https://127.0.0.1:6444?query":             "",
		"https://user@127.0.0.1:6444":              "",
		"https://:6444":                            "",
		"127.0.0.1:6444":                           "",
		"dns:///core.tripod-system.svc":            "",
		"dns:///core.tripod-system.svc:0":          "",
		"dns://core.tripod-system.svc:6443":        "",
		"dns://8.8.8.8/core.tripod-system.svc:643": "",
		"dns:///core/path:6443":                    "",
		"dns:///:6443":                             "",
		"":                                         "",
		"://":                                      "",
	} {
		l, err := OfServer(server)
		expect(t, server, l, err, want)
	}
}

func TestOfGRPC(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7444":     "127.0.0.1:7444",
		"core-0.core:7444":   "core-0.core:7444",
		"[::1]:7444":         "[::1]:7444",
		"dns:///core:7444":   "name core:7444",
		"https://core:7444":  "",
		"dns:///core":        "",
		"dns:///core/x:7444": "",
		"core":               "",
		"core:":              "",
		"core:0":             "",
		"core:http":          "",
		"core:70000":         "",
		":7444":              "",
		"":                   "",
	} {
		l, err := OfGRPC(address)
		expect(t, address, l, err, want)
	}
}

// expect compares a location with an address, after "name" if it is a name. An empty want stands for an error.
func expect(t *testing.T, text string, l Location, err error, want string) {
	t.Helper()
	if want == "" {
		assert.ErrorContains(t, err, `"`+text+`" is not of the form`, "%q", text)
		return
	}
	got := l.Address()
	if l.IsName {
		got = "name " + got
	}
	if err != nil || got != want {
		t.Errorf("%q is %q, %v; want %q", text, got, err, want)
	}
}
