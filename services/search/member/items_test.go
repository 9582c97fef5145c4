// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingHasToFollowAnEvent holds that a watch may be quiet after the line break with which API servers end an event, whether that
// comes with the event or later. A part of the next event has to end in time, and so have many blanks.
func TestNothingHasToFollowAnEvent(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		timed bool
	}{
		"nothing":      {"{}", false},
		"a line break": {"{}\n", false},
		"several":      {"{}\r\n\r\n \t", false},
		"an event":     {"{}\n{", true},
		"many blanks":  {"{}" + strings.Repeat(" ", 8*maxBlanks), true},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			t.Run(name+" "+how, func(t *testing.T) {
				i := newItems(t.Context(), newLimiter(t, nil).forMember(), reader(strings.NewReader(test.text)), nil)
				i.quiet = true
				require.NoError(t, i.next(func(item) error { return nil }))
				require.Error(t, i.next(func(item) error { return nil }), "that is all")
				assert.Equal(t, test.timed, i.begun, "whether a timer runs")
			})
		}
	}
}

// TestAListThatStandsStillEnds has members that stop wherever a list allows it.
func TestAListThatStandsStillEnds(t *testing.T) {
	for name, text := range map[string]string{
		"before the list":          "",
		"in a name":                `{"ki`,
		"in a field":               `{"kind":"Li`,
		"after a field":            `{"kind":"List"`,
		"in a name after a field":  `{"kind":"List","met`,
		"after no items":           `{"items":null`,
		"in the items":             `{"items":[`,
		"after an item":            `{"items":[{}`,
		"after all items":          `{"items":[{}]`,
		"after the metadata":       `{"metadata":{}`,
		"after an item of a field": `{"items":[{}],"a":[1],"b":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
				io.WriteString(w, text) //nolint:errcheck // the client is gone
				stop(w, req)
			})
			m.limiter.Timeout = 20 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _, _, err := m.source().page(ctx, "", func(i item) error { i.done(); return nil })
			require.NoError(t, ctx.Err(), "the list has ended by itself")
			assert.True(t, isLimit(err), err)
		})
	}
}

// chunks reads a text in pieces that end at these slots.
type chunks struct {
	text string
	at   int
	ends []int
}

func (c *chunks) Read(into []byte) (int, error) {
	for len(c.ends) > 0 && c.ends[0] <= c.at {
		c.ends = c.ends[1:]
	}
	end := len(c.text)
	if len(c.ends) > 0 {
		end = min(end, c.ends[0])
	}
	if c.at == len(c.text) {
		return 0, io.EOF
	}
	n := copy(into, c.text[c.at:end])
	c.at += n
	return n, nil
}

// listOf returns a list with items of these sizes, and where a piece of it ends.
func listOf(sizes []int) (text string, items []string, ends []int) {
	text = `{"metadata":{"resourceVersion":"1"},"items":[`
	ends = append(ends, len(text))
	for i, size := range sizes {
		if i > 0 {
			text += ","
		}
		ends = append(ends, len(text))
		items = append(items, fmt.Sprintf(`{"data":"%s"}`, strings.Repeat("x", size)))
		text += items[i]
		ends = append(ends, len(text))
	}
	return text + `],"kind":"List"}`, items, append(ends, len(text)+1)
}

// sameItems reads a list in pieces, and holds that they make no difference.
func sameItems(t *testing.T, sizes, ends []int) {
	t.Helper()
	text, want, _ := listOf(sizes)
	e := newLimiter(t, nil).forMember()
	i := newItems(t.Context(), e, &chunks{text: text, ends: ends}, func(error) {})
	i.begin(0)
	var got []string
	err := i.object(func(name string) error {
		if name != "items" {
			return i.skip()
		}
		return i.array(func() error {
			return i.next(func(one item) error {
				got = append(got, string(one.text))
				assert.Equal(t, one.release != nil, e.large.count() > 0, "only this item takes memory")
				one.done()
				return nil
			})
		})
	})
	i.close()
	require.NoError(t, err, "pieces end at %v", ends)
	assert.Zero(t, e.slots.count())
	require.True(t, slices.Equal(want, got), "pieces end at %v", ends)
	assert.Zero(t, e.large.count())
	assert.Zero(t, e.ownLong.count())
}

// TestPiecesOfAListMakeNoDifference has a list come in pieces that end before, in or after its objects, as those of an API server do that
// writes one by one.
func TestPiecesOfAListMakeNoDifference(t *testing.T) {
	for _, sizes := range [][]int{
		{70_000, 70_000, 70_000}, {100_000, 10, 100_000, 150_000}, {10, 60_000, 66_000, 10, 300_000, 10},
		{9_000, 10, 8_000, tinyObject, 20_000, 10}, {tinyObject - 11, tinyObject - 10, tinyObject}, {keptBuffer - 11, keptBuffer - 10, keptBuffer}, {smallObject - 11, smallObject - 10, smallObject},
	} {
		_, _, ends := listOf(sizes)
		for _, after := range []int{-2, -1, 0, 1, 2} {
			var all []int
			for _, end := range ends {
				all = append(all, end+after)
				sameItems(t, sizes, []int{end + after})
			}
			sameItems(t, sizes, all)
		}
	}
}

// TestAListThatStandsStillAfterALargeItemEnds holds that the time runs while nothing follows a large item, whether the list reads ahead or
// not.
func TestAListThatStandsStillAfterALargeItemEnds(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, `{"items":[{"data":"`+strings.Repeat("x", 2*smallObject)+`"}`) //nolint:errcheck // the client is gone
		stop(w, req)
	})
	m.limiter.Timeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	count := 0
	_, _, _, err := m.source().page(ctx, "", func(i item) error {
		count++
		i.done()
		return nil
	})
	require.NoError(t, ctx.Err(), "the list has ended by itself")
	assert.True(t, isLimit(err), err)
	assert.Equal(t, 1, count)
	assert.Zero(t, m.limiter.large.count())
}

// FuzzPieces reads lists in any pieces.
func FuzzPieces(f *testing.F) {
	f.Add([]byte{70, 70, 70}, []byte{0, 255, 3})
	f.Add([]byte{100, 1, 64, 65}, []byte{1, 2, 3, 200})
	f.Fuzz(func(t *testing.T, kilobytes, pieces []byte) {
		var sizes, ends []int
		for _, k := range kilobytes[:min(len(kilobytes), 8)] {
			sizes = append(sizes, int(k)*1024)
		}
		end := 0
		for _, piece := range pieces[:min(len(pieces), 100)] { // of a few bytes, or of many
			if end += 1 + int(piece); piece > 128 {
				end += int(piece) << 8
			}
			ends = append(ends, end)
		}
		sameItems(t, sizes, ends)
	})
}

// TestFewObjectsAreDecodedAtOnce has members send objects while all slots of the processors are taken, and members that do not go on within
// an object: these have no slot meanwhile.
func TestFewObjectsAreDecodedAtOnce(t *testing.T) {
	limiter := newLimiter(t, nil)
	assert.Less(t, cap(limiter.decoders), max(2, runtime.GOMAXPROCS(0)))
	read := func(body io.Reader) (ended chan error, end context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		i := newItems(ctx, limiter.forMember(), body, func(error) {})
		go func() {
			defer i.close()
			ended <- i.next(func(item) error { return nil })
		}()
		return ended, cancel
	}
	for range 100 { // more than there are slots
		silent, write := io.Pipe()
		_, end := read(silent)
		_, err := write.Write([]byte(`{"kind":`)) // it was read
		require.NoError(t, err)
		defer func() {
			end()
			write.Close()
		}()
	}
	ended, _ := read(strings.NewReader(`{}`))
	require.NoError(t, <-ended)

	for range cap(limiter.decoders) {
		limiter.decoders <- struct{}{}
	}
	waiting, _ := read(strings.NewReader(`{}`))
	gone, end := read(strings.NewReader(`{}`))
	end()
	require.ErrorIs(t, <-gone, context.Canceled)
	select {
	case err := <-waiting:
		require.Fail(t, "it did not wait", "%v", err)
	default:
	}
	<-limiter.decoders
	require.NoError(t, <-waiting)
}
