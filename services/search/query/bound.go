// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/selection"
)

// AtLeast and AtMost are the operators >= and <= of a field. Those of > and < are selection.GreaterThan and selection.LessThan.
const (
	AtLeast selection.Operator = "ge"
	AtMost  selection.Operator = "le"
)

// comparison is an operator that compares, and how it is written.
type comparison struct {
	sign     string
	operator selection.Operator
}

// comparisons are all of them. An operator comes before one that it begins with.
var comparisons = []comparison{{">=", AtLeast}, {"<=", AtMost}, {">", selection.GreaterThan}, {"<", selection.LessThan}}

// Bound is what the value of a field is compared with. Values of another sort, and fields that are not there, are neither more nor less.
type Bound struct {
	Operator selection.Operator
	// Number is that of a Rank.
	Number float64
	// Moment is the form of MomentOf of a time. It is empty if the bound is a number.
	Moment string
}

// Sign returns the operator as Go and SQL write it.
func (b Bound) Sign() string {
	for _, c := range comparisons {
		if c.operator == b.Operator {
			return c.sign
		}
	}
	return ""
}

// Upwards reports whether greater values meet the bound.
func (b Bound) Upwards() bool { return b.Operator == AtLeast || b.Operator == selection.GreaterThan }

// holds reports whether a text is a number or a time that meets the bound.
func (b Bound) holds(text string) bool {
	if b.Moment != "" {
		moment := MomentOf(text)
		return moment != "" && b.allows(strings.Compare(moment, b.Moment))
	}
	number := RankOf(text).Number
	return number != NoNumber && number != AnyText && b.allows(cmp.Compare(number, b.Number))
}

// allows reports whether a value may be less (-1) than the bound, the same, or greater.
func (b Bound) allows(compared int) bool {
	switch b.Operator {
	case AtLeast:
		return compared >= 0
	case AtMost:
		return compared <= 0
	case selection.GreaterThan:
		return compared > 0
	}
	return compared < 0
}

// MomentPattern matches times as Kubernetes writes them: RFC 3339 in UTC. The databases use the same pattern.
const MomentPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$`

var momentPattern = regexp.MustCompile(MomentPattern)

// MomentEnd are characters that MomentOf leaves out at the end of a time.
const MomentEnd = "Z0."

// MomentOf returns a form of a time whose order is that of the bytes, or nothing for any other text. Without zeros at the end, fractions of
// different lengths compare as they should.
func MomentOf(text string) string {
	if !momentPattern.MatchString(text) {
		return ""
	}
	return strings.TrimRight(text, MomentEnd)
}

// parseBound reads a number, a quantity, a time, or a time that is relative to now.
func parseBound(operator selection.Operator, text string) (*Bound, error) {
	if number := RankOf(text).Number; number != NoNumber && number != AnyText {
		return &Bound{Operator: operator, Number: number}, nil
	}
	t, is := relativeTime(text, time.Now())
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if is {
			break
		}
		var err error
		t, err = time.Parse(layout, text)
		is = err == nil
	}
	if t = t.UTC(); !is || t.Year() < 0 || t.Year() > 9999 {
		return nil, fmt.Errorf("%q is neither a number such as 3, 500m or 2Gi nor a time such as 2006-01-02T15:04:05Z, 2006-01-02 or now-7d",
			text)
	}
	return &Bound{Operator: operator, Moment: MomentOf(t.Format("2006-01-02T15:04:05.000000000Z"))}, nil
}

// maxDays is how far a relative time is from now.
const maxDays = 36_500

// relativeTime reads now, now-7d or now+1d12h.
func relativeTime(text string, now time.Time) (t time.Time, is bool) {
	rest, found := strings.CutPrefix(text, "now")
	if !found || rest == "" {
		return now, found
	}
	sign := time.Duration(1)
	if rest[0] == '-' {
		sign = -1
	} else if rest[0] != '+' {
		return now, false
	}
	rest = rest[1:]
	var sum time.Duration
	if days, after, found := strings.Cut(rest, "d"); found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return now, false
		}
		if sum, rest = time.Duration(n)*24*time.Hour, after; rest == "" {
			return now.Add(sign * sum), true
		}
	}
	if rest == "" || rest[0] < '0' || rest[0] > '9' {
		return now, false
	}
	part, err := time.ParseDuration(rest)
	if err != nil || part > maxDays*24*time.Hour {
		return now, false
	}
	return now.Add(sign * (sum + part)), true
}
