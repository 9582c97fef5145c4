// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
)

// written returns HTTP/2 frames.
func written(t *testing.T, write func(*http2.Framer) error) []byte {
	t.Helper()
	var buffer bytes.Buffer
	if err := write(http2.NewFramer(&buffer, nil)); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestFramesAreToldApart(t *testing.T) {
	update := written(t, func(f *http2.Framer) error { return f.WriteWindowUpdate(3, 4096) })
	both := append(bytes.Clone(update), update...)
	ping := written(t, func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
	// What a client sends may look like any frame.
	data := written(t, func(f *http2.Framer) error { return f.WriteData(3, true, update) })
	for name, test := range map[string]struct {
		before  []byte
		p       []byte
		updates bool
	}{
		"an update":                               {nil, update, true},
		"two updates":                             {nil, both, true},
		"an update after another frame":           {ping, update, true},
		"another frame":                           {nil, ping, false},
		"an update and another frame":             {nil, append(bytes.Clone(update), ping...), false},
		"another frame and an update":             {nil, append(bytes.Clone(ping), update...), false},
		"a part of an update":                     {nil, update[:10], false},
		"the rest of an update":                   {update[:10], update[10:], false},
		"an update after one that was in pieces":  {both[:updateLength+3], both[updateLength+3:], false},
		"content that looks like an update":       {data[:len(data)-updateLength], update, false},
		"an update after content that looks like": {data, update, true},
		"a head in pieces":                        {update[:4], update[4:], false},
		"nothing":                                 {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := frames{rest: len(preface)}
			f.pass([]byte(preface))
			f.pass(test.before)
			if got := f.pass(test.p); got != test.updates {
				t.Errorf("it is updates: %t, want %t", got, test.updates)
			}
		})
	}
}
