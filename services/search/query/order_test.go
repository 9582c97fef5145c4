// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/resource"
)

func compareRanks(a, b Rank) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Text, b.Text))
}

func TestValuesHaveAnOrder(t *testing.T) {
	want := []string{
		"", "-1e21", "-10", "-2", "-1.5", "-1", "0", "0.1n", "1n", "1u", "500m", "0.5001", "1", "1.0", "007", "10", "100k", "1e6", "1Mi", "2147483648", "9007199254740992", "9007199254740993", "1E", "1Ei",
		"99999999999999999999", "1e99", "\x02", "-", ".5", "1 ", "1.", "1Gib", "1e100", "1h", "a", "b", "é",
	}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, func(a, b string) int { return compareRanks(RankOf(a), RankOf(b)) })
	assert.Equal(t, want, got)
	long := strings.Repeat("é", RankLength)
	assert.Equal(t, RankOf(long), RankOf(long+"a"))
}

// TestQuantitiesAreSortedAsKubernetesComparesThem holds for quantities of up to 15 digits, which floating point distinguishes.
func TestQuantitiesAreSortedAsKubernetesComparesThem(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	quantity := func() (string, resource.Quantity) {
		text := fmt.Sprint(r.Int64N(pow10(1 + r.IntN(12))))
		if r.IntN(3) == 0 {
			text += fmt.Sprintf(".%d", r.IntN(100))
		}
		if r.IntN(4) == 0 {
			text = "-" + text
		}
		if r.IntN(4) > 0 {
			text += Units[r.IntN(len(Units))].Suffix
		}
		return text, resource.MustParse(text)
	}
	for range 100_000 {
		a, first := quantity()
		b, second := quantity()
		if first.AsApproximateFloat64() == second.AsApproximateFloat64() || isRounded(a) || isRounded(b) {
			continue
		}
		require.Equal(t, first.Cmp(second), cmp.Compare(RankOf(a).Number, RankOf(b).Number), "seed %d, %s and %s", seed, a, b)
	}
}

// isRounded reports whether Kubernetes takes a quantity for another one: it has 63 bits, and nothing below a billionth.
func isRounded(text string) bool {
	return math.Abs(RankOf(text).Number) >= 1<<63 || strings.Contains(text, ".") && strings.HasSuffix(text, "n")
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}
