// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bytes"
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// written returns HTTP/2 frames.
func written(t *testing.T, write func(*http2.Framer) error) []byte {
	t.Helper()
	var buffer bytes.Buffer
	require.NoError(t, write(http2.NewFramer(&buffer, nil)))
	return buffer.Bytes()
}

func ignore(frame) {}

func TestFramesAreKeptApart(t *testing.T) {
	update := written(t, func(f *http2.Framer) error { return f.WriteWindowUpdate(3, 4096) })
	both := append(bytes.Clone(update), update...)
	ping := written(t, func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
	// The data of a client may look like a frame.
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
			f.pass([]byte(preface), ignore)
			f.pass(test.before, ignore)
			assert.Equal(t, test.updates, f.pass(test.p, ignore), "it was updated")
		})
	}
}

// FuzzFrames compares frames with x/net/http2's reading of the same bytes, wherever writes end.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 0}, []byte{13, 13, 9, 200, 1})
	f.Add([]byte{1, 0, 3, 0, 0, 2}, []byte{22, 4, 26, 1, 100})
	f.Add([]byte{3, 0, 0}, []byte{255})
	f.Fuzz(func(t *testing.T, kinds, cuts []byte) {
		if len(kinds) > 64 || len(cuts) > 256 {
			t.Skip("it would be slow, and is no new case")
		}
		var sent bytes.Buffer
		framer := http2.NewFramer(&sent, nil)
		for i, kind := range kinds {
			var err error
			switch stream := uint32(2*i + 1); kind % 4 {
			case 0:
				err = framer.WriteWindowUpdate(stream, 1+uint32(kind))
			case 1:
				err = framer.WritePing(false, [8]byte{kind})
			case 2:
				err = framer.WriteData(stream, false, bytes.Repeat([]byte{windowUpdate}, int(kind)))
			case 3:
				err = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
			}
			require.NoError(t, err)
		}
		f := frames{rest: len(preface)}
		f.pass([]byte(preface), ignore)
		for end, whole := 0, true; end < sent.Len(); whole = isWhole(sent.Bytes()[:end]) {
			begin := end
			end = sent.Len()
			if len(cuts) > 0 {
				end, cuts = min(end, begin+int(cuts[0])), cuts[1:]
			}
			p := sent.Bytes()[begin:end]
			want := len(p) > 0 && whole && isWhole(p, http2.FrameWindowUpdate)
			require.Equal(t, want, f.pass(p, ignore), "it was updated")
		}
	})
}

// isWhole reports whether x/net/http2 reads whole frames to the end. If types are given, all frames must have one of them.
func isWhole(p []byte, types ...http2.FrameType) bool {
	framer := http2.NewFramer(nil, bytes.NewReader(p))
	for read := 0; read < len(p); {
		frame, err := framer.ReadFrame()
		if err != nil || (len(types) > 0 && !slices.Contains(types, frame.Header().Type)) {
			return false
		}
		read += headLength + int(frame.Header().Length)
	}
	return true
}

func TestUpdatesDoNotWaitForALargePartOfAWindow(t *testing.T) {
	replica, aggregator := net.Pipe()
	defer replica.Close()
	d := newDelayed(&counted{Conn: tls.Client(aggregator, nil)})
	d.frames.rest = 0 // the preface was sent
	update := func(bytes int) []byte {
		return written(t, func(f *http2.Framer) error {
			if err := f.WriteWindowUpdate(0, uint32(bytes)); err != nil {
				return err
			}
			return f.WriteWindowUpdate(3, uint32(bytes))
		})
	}
	for _, test := range []struct {
		bytes int
		waits bool
	}{{maxHeldGrants - 1, true}, {1, false}, {maxHeldGrants / 2, true}, {maxHeldGrants / 2, false}, {maxHeldGrants, false}} {
		p := update(test.bytes)
		if got := d.frames.pass(p, ignore) && d.mayHold(p); got != test.waits {
			t.Errorf("an update of %d bytes waits: %t", test.bytes, got)
		}
		if !test.waits {
			d.grants = 0 // as after sending
		}
	}
}
