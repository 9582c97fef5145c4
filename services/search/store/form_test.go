// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// oddObjects are what not every database can store or compare.
func oddObjects() map[string]string {
	return map[string]string{
		"nul":          `"spec":{"a":"x\u0000y","n\u0000":{"b":"\u0000"}}`,
		"control":      `"spec":{"a":"\u0001"}`,
		"surrogate":    `"spec":{"a":"\ud800"}`,
		"pair":         `"spec":{"a":"\ud83d\ude00"}`,
		"32-levels":    `"spec":` + strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31),
		"101-levels":   `"spec":` + strings.Repeat(`[`, 101) + strings.Repeat("]", 101),
		"5,000-levels": `"spec":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"fraction":     `"spec":{"a":52.520006599999995}`,
		"exponent":     `"spec":{"a":1e21,"b":1e-7,"c":1.0}`,
		"huge-number":  `"spec":{"a":1e400000}`,
		"long-number":  `"spec":{"a":123456789012345678901234567890}`,
		"twice":        `"spec":{"a":1,"a":2}`,
		"escaped-name": `"spec":{"\u003ca":1}`,
		"minus":        `"spec":{"-a":1,"~-a":2}`,
	}
}

func TestWhatADatabaseCannotIndexIsServedAsItIs(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "east", pods)
		text := func(name, content string) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1"},%s}`, name, content)
		}
		served := func(name string, revision int64) string {
			return strings.ReplaceAll(text(name, oddObjects()[name]), `"resourceVersion":"1"`, fmt.Sprintf(`"resourceVersion":"%d"`, revision))
		}
		put := func(name, content, version string) int64 {
			t.Helper()
			o := Object{Name: name, UID: name, ResourceVersion: version, JSON: []byte(text(name, content)), Labels: map[string]string{"a": "x\x00"}, Owners: []string{"u\x00"}}
			require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: o}}}), name)
			revision, err := s.Revision(t.Context())
			require.NoError(t, err)
			return revision
		}
		for name, content := range oddObjects() {
			put(name, `"spec":{"a":"before"}`, "1")
			odd := put(name, content, "2")
			found, err := s.Get(t.Context(), "east", pods.GroupVersionResource, "", name)
			require.NoError(t, err)
			assert.Equal(t, served(name, odd), string(found.JSON), name)
			put(name, `"spec":{"a":"after"}`, "3")
			found, err = s.GetAt(t.Context(), &query.Moment{Revision: odd}, "east", pods.GroupVersionResource, "", name)
			require.NoError(t, err)
			assert.Equal(t, served(name, odd), string(found.JSON), name)
			kinds, err := s.KindIDs(t.Context(), nil)
			require.NoError(t, err)
			history, err := s.Transitions(t.Context(), odd-1, kinds, nil)
			require.NoError(t, err)
			require.Len(t, history.Transitions, 2)
			assert.Equal(t, served(name, odd), string(history.Transitions[0].After.JSON), name)
			assert.Equal(t, served(name, odd), string(history.Transitions[1].Before.JSON), name)
			last := put(name, content, "4")
			var listed []string
			fields, err := query.ParseFields("spec.a!=before,spec.list[].x!=1,spec.c[0]!=7")
			require.NoError(t, err)
			_, err = s.List(t.Context(), nil, &query.Query{Fields: fields, Names: query.Choice{In: []string{name}}}, func(f Found) error {
				listed = append(listed, string(f.JSON))
				return nil
			})
			require.NoError(t, err)
			assert.Equal(t, []string{served(name, last)}, listed)
		}
		for more := true; more; {
			var err error
			more, err = s.Prune(t.Context(), time.Now().Add(time.Hour))
			require.NoError(t, err)
		}
		var originals int
		require.NoError(t, s.db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM originals").Scan(&originals))
		assert.LessOrEqual(t, originals, len(oddObjects()), "states that are forgotten leave nothing")
	})
}

func TestObjectsThatNoDatabaseCanHaveAreRefused(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "east", pods)
		for _, o := range []Object{
			{Name: "cut", JSON: []byte(`{"metadata":`)}, {Name: "list", JSON: []byte(`[]`)}, {Name: "null", JSON: []byte(`null`)}, {Name: "two", JSON: []byte(`{}{}`)},
			{Name: "a\x00b", JSON: []byte(`{}`)}, {Name: "a", Namespace: "\xff", JSON: []byte(`{}`)},
			{Name: "deep", JSON: []byte(strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000))},
		} {
			err := s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: o}}})
			assert.True(t, IsRefused(err), "%q: %v", o.Name, err)
		}
	})
}

func TestNoTextMakesASearchFail(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		openStream(t, s, "east", pods)
		for _, odd := range []string{"a\x00b", "\xff", "\ud7ff\xed\xa0\x80"} {
			_, err := s.Get(t.Context(), odd, pods.GroupVersionResource, odd, odd)
			require.ErrorIs(t, err, ErrNotFound)
			q := query.Query{Names: query.Choice{In: []string{odd}}, Clusters: query.Choice{NotIn: []string{odd}}, Fuzzy: []string{odd}, Owner: &query.Owner{UID: odd}}
			q.Fields = []query.Field{{Paths: [][]query.Step{{{Name: "a"}}}, Operator: "=", Values: []string{odd}}}
			found, _ := names(t, s, q, pods)
			assert.Empty(t, found)
		}
	})
}

func TestNamesThatDifferInBlanksAreTwo(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "east", pods)
		var changes []Change
		for _, name := range []string{"trail", "trail ", "Trail", "tra\u00efl", "trai\u0308l"} {
			changes = append(changes, Change{Object: Object{Name: name, UID: name, Labels: map[string]string{"a": name}, JSON: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}})
		}
		require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: changes}))
		for _, c := range changes {
			found, _ := names(t, s, query.Query{Names: query.Choice{In: []string{c.Name}}}, pods)
			assert.Equal(t, []string{"east//" + c.Name}, found)
		}
	})
}
