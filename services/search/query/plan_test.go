// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// oneByOne judges a field by reading the object for each of its conditions.
func oneByOne(f Field, kind schema.GroupKind, s *Subject) bool {
	one := slices.ContainsFunc(f.Alternatives(kind), func(all []Condition) bool {
		return !slices.ContainsFunc(all, func(c Condition) bool {
			for i := range c.Values {
				c.Values[i] = Speakable(c.Values[i])
			}
			some := false
			for value := range ValuesAt(c.Path, s.JSON) {
				if c.holdsFor(value) {
					return false
				}
				some = true
			}
			return some || c.Every() || !c.holdsFor(null)
		})
	})
	return one != f.Negative()
}

func randomValue(r *rand.Rand, depth int) string {
	switch n := r.IntN(8); {
	case depth > 0 && n < 4:
		var parts []string
		for range r.IntN(4) {
			name := []string{`"a"`, `"b"`, `"c"`, `"\u0061"`, `"a.b"`, "\"\xff\"", `"kind"`}[r.IntN(7)]
			parts = append(parts, name+": "+randomValue(r, depth-1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case depth > 0 && n < 6:
		var parts []string
		for range r.IntN(4) {
			parts = append(parts, randomValue(r, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return []string{"null", "1", "true", `"x"`, `"X"`, `"\u0078"`, `""`, "\"\xff\"", `"a\u0000"`}[r.IntN(9)]
}

func randomSelector(r *rand.Rand) string {
	path := func() string {
		text := []string{"a", "b", "c", "'a.b'", "\uFFFD"}[r.IntN(5)]
		for range r.IntN(4) {
			text += []string{".a", ".b", ".c", "[]", "[0]", "[1]", "['a.b']"}[r.IntN(7)]
		}
		return text
	}
	var all []string
	for range 1 + r.IntN(5) {
		one := path()
		for range r.IntN(3) {
			one += "|" + path()
		}
		all = append(all, fmt.Sprintf([]string{"%s=x", "%s!=x", "%s=", "%s in (x, 1, true)", "%s notin (x, '')", "%s", "!%s", "%s icontains (x)", "!%s contains (x, a)", "%s startswith (x)", "%s=\uFFFD"}[r.IntN(11)], one))
	}
	return strings.Join(all, ",")
}

// TestOnePassFindsWhatManyFind judges random objects by random selectors.
func TestOnePassFindsWhatManyFind(t *testing.T) {
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewPCG(1, uint64(seed)))
	found := 0
	for range 20_000 {
		text := randomSelector(r)
		fields, err := ParseFields(text)
		if err != nil {
			continue // "!a|b" needs an operator
		}
		m := NewMatcher(&Query{Fields: fields})
		for range 3 {
			s := &Subject{JSON: []byte(randomValue(r, 4))}
			want := !slices.ContainsFunc(fields, func(f Field) bool { return !oneByOne(f, s.kind(), s) })
			require.Equal(t, want, m.Matches(s), "seed %d: %s in %s", seed, text, s.JSON)
			if want {
				found++
			}
		}
	}
	assert.Greater(t, found, 1000)
}

// TestManyFieldsAreReadAtOnce compares times: 64 fields at the end of an object may not take 64 times as long as one.
func TestManyFieldsAreReadAtOnce(t *testing.T) {
	object := `{"spec":{"list":[1` + strings.Repeat(",1", 200_000) + `],"last":{"a":1}}}`
	fastest := func(selector string) time.Duration {
		fields, err := ParseFields(selector)
		require.NoError(t, err)
		m, fastest := NewMatcher(&Query{Fields: fields}), time.Hour
		for range 5 {
			begun := time.Now()
			require.False(t, m.Matches(&Subject{JSON: []byte(object)}))
			fastest = min(fastest, time.Since(begun))
		}
		return fastest
	}
	one := "spec.last.x0=1"
	many := ""
	for i := range 63 {
		many += fmt.Sprintf("spec.last.x%d!=%d,", i+1, i)
	}
	assert.Less(t, fastest(many+one), 10*fastest(one))
}
