// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted are objects, and how many values and elements they have. The whole counts as an element.
var counted = map[string]struct{ values, elements int }{
	`{}`:          {0, 1},
	" \t\r\n{ } ": {0, 1},
	`{"a":[]}`:    {1, 1},
	`{"a":[1]}`:   {2, 2},
	`{"a":[ 1 , "a" , null , true , [ ] , { } ]}`: {7, 7},
	`{"a":[[],[[]]]}`:                  {4, 4},
	`{"a":1,"b":{},"c":{"d":[]}}`:      {4, 3},
	`{"a":[{"b":1},{"b":2}]}`:          {5, 3},
	`{"a,[{\"":"]},{[\\","b":"\\\","}`: {2, 1},
}

func TestOnlyObjectsPass(t *testing.T) {
	for name, text := range map[string]string{
		"protobuf": "k8s\x00\n{},{}", "CBOR": "\xd9\xd9\xf7\xa1{", "YAML": "a: {}", "a YAML list": "- {}", "a YAML document": "---\n{}",
		"gzip": "\x1f\x8b{", "a list": "[{}]", "a string": `"{}"`, "a number": "1", "a byte order mark": "\xef\xbb\xbf{}", "another blank": "\v{}",
	} {
		t.Run(name, func(t *testing.T) { assert.ErrorIs(t, Limits{}.Check([]byte(text)), ErrNoObject) })
	}
}

func TestCounts(t *testing.T) {
	for text, want := range counted {
		t.Run(text, func(t *testing.T) {
			require.True(t, json.Valid([]byte(text)))
			c := Limits{}.Counter()
			_, err := io.Copy(c, iotest.OneByteReader(strings.NewReader(text)))
			require.NoError(t, err)
			assert.Equal(t, want.values, c.values, "values")
			assert.Equal(t, want.elements, c.elements, "elements")
		})
	}
}

func TestLimits(t *testing.T) {
	const text = `{"a":{"b":[1,2,3],"c":{"d":1}},"e":1}` // 8 values, 3 objects, 3 elements
	for name, test := range map[string]struct {
		limits Limits
		within bool
	}{
		"none":                {Limits{}, true},
		"values":              {Limits{Values: 8}, true},
		"too many values":     {Limits{Values: 7}, false},
		"elements":            {Limits{Elements: 6}, true},
		"too many elements":   {Limits{Elements: 5}, false},
		"the upper values":    {Limits{Values: 4, Within: 2}, true},
		"too many up there":   {Limits{Values: 3, Within: 2}, false},
		"members alone":       {Limits{Values: 2, Within: 1}, true},
		"too many members":    {Limits{Values: 1, Within: 1}, false},
		"objects among those": {Limits{Elements: 2, Within: 1}, true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.within, test.limits.Check([]byte(text)) == nil) })
	}
	assert.NoError(t, Limits{}.Check([]byte(`{"a":`+strings.Repeat("[", 255)+strings.Repeat("]", 255)+"}")))
	assert.ErrorIs(t, Limits{}.Check([]byte(`{"a":`+strings.Repeat("[", 256))), ErrTooDeep)
}

// FuzzCount compares the counts with those of decoded JSON.
func FuzzCount(f *testing.F) {
	for text := range counted {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Limits{}.Counter()
		_, err := c.Write(text)
		if err != nil || !json.Valid(text) {
			return
		}
		values, elements := 0, 0
		tokens := json.NewDecoder(strings.NewReader(string(text)))
		var lists []bool
		var names []bool // whether a name is next, of each level
		for {
			token, err := tokens.Token()
			if err != nil {
				break
			}
			top := len(lists) - 1
			if token == json.Delim('}') || token == json.Delim(']') {
				lists, names = lists[:top], names[:top]
				continue
			}
			switch {
			case top < 0:
			case lists[top]:
				values++
				elements++
			case names[top]:
				names[top] = false
				continue
			default:
				values++
				names[top] = true
			}
			if begins, ok := token.(json.Delim); ok {
				if begins == '{' && (top < 0 || !lists[top]) {
					elements++
				}
				lists, names = append(lists, begins == '['), append(names, begins == '{')
			}
		}
		assert.Equal(t, values, c.values, "values")
		assert.Equal(t, elements, c.elements, "elements")
	})
}
