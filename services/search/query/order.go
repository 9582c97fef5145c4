// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxOrders is how many columns and fields a list can be sorted by.
const maxOrders = 8

// setOrder reads "a, b desc", or of a label the values "a" and "b_desc".
func setOrder(q *Query, g given) error {
	values, separator := g.values, "_"
	if !g.label {
		values, separator = splitOutsideQuotes(g.values[0]), " "
	}
	if g.not || g.exists || g.missing {
		return errors.New("needs =, == or in")
	}
	if len(q.Order)+len(values) > maxOrders {
		return fmt.Errorf("more than %d columns and fields", maxOrders)
	}
	for _, value := range values {
		text, descending := strings.TrimSpace(value), false
		if before, direction, found := cutLast(text, separator); found && (direction == "desc" || direction == "asc") {
			text, descending = strings.TrimSpace(before), direction == "desc"
		}
		order := Order{Column: Column(text), Descending: descending}
		if !slices.Contains(columns, order.Column) {
			path, err := parseSortable(text)
			if err != nil {
				return fmt.Errorf("%q is no column: %w", value, err)
			}
			order = Order{Path: path, Descending: descending}
		}
		q.Order = append(q.Order, order)
	}
	return nil
}

// parseSortable parses the path of a field that objects can be sorted by. A name alone needs a dot before it, so that a wrong column is an
// error.
func parseSortable(text string) ([]Step, error) {
	p := &fieldParser{text: text}
	path, err := p.path()
	if err != nil || p.more() || len(path) == 1 && !strings.HasPrefix(text, ".") {
		return nil, fmt.Errorf("columns are %s, and a field is a path such as spec.replicas or .data", strings.Join(asTexts(columns), ", "))
	}
	if (Condition{Path: path}).Every() {
		return nil, errors.New("an object has one place in an order, so name one element of a list, as in spec.containers[0].image")
	}
	return path, nil
}

// splitOutsideQuotes splits a text at its commas, but for those in the names of fields.
func splitOutsideQuotes(text string) (parts []string) {
	var quote rune
	from := 0
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == ',':
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// Rank is the place of the value of a field in an order: by the number, and then by the text.
type Rank struct {
	Number float64
	Text   string
}

// NoNumber is the number of a field that is not there, null or empty. All numbers are greater.
const NoNumber = -1e300

// AnyText is the number of a text that is no number. All numbers are less.
const AnyText = 1e300

// RankLength is how many characters of a text count in an order. MySQL sorts by 1,024 bytes of a text.
const RankLength = 256

// NumberPattern matches texts that are sorted by their number: those of JSON, and quantities of Kubernetes such as 500m and 1.5Gi. Their
// groups are the number, and what follows it. The databases use the same pattern.
const (
	NumberPattern = `^(` + numberPrefix + `)(` + numberSuffix + `)?$`
	numberPrefix  = `-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?`
	numberSuffix  = `[numkMGTPE]|[KMGTPE]i`
)

var numberPattern = regexp.MustCompile(NumberPattern)

// Unit is a suffix of a quantity. Its number is multiplied and then divided, each of which floating point does in the same way everywhere.
type Unit struct {
	Suffix           string
	Multiply, Divide float64
}

// Units are those of Kubernetes.
var Units = []Unit{
	{"n", 1, 1e9},
	{"u", 1, 1e6},
	{"m", 1, 1e3},
	{"k", 1e3, 1},
	{"M", 1e6, 1},
	{"G", 1e9, 1},
	{"T", 1e12, 1},
	{"P", 1e15, 1},
	{"E", 1e18, 1},
	{"Ki", 1 << 10, 1},
	{"Mi", 1 << 20, 1},
	{"Gi", 1 << 30, 1},
	{"Ti", 1 << 40, 1},
	{"Pi", 1 << 50, 1},
	{"Ei", 1 << 60, 1},
}

// RankOf returns the place of a text.
func RankOf(text string) Rank {
	if text == "" {
		return Rank{Number: NoNumber}
	}
	rank := Rank{Number: AnyText, Text: text}
	if at := endOf(text, RankLength); at < len(text) {
		rank.Text = text[:at]
	}
	if parts := numberPattern.FindStringSubmatch(text); parts != nil {
		number, err := strconv.ParseFloat(parts[1], 64)
		if err == nil && !math.IsInf(number, 0) {
			rank.Number = number
		}
		if i := slices.IndexFunc(Units, func(u Unit) bool { return u.Suffix == parts[2] }); i >= 0 {
			rank.Number = rank.Number * Units[i].Multiply / Units[i].Divide
		}
	}
	return rank
}

// endOf returns where the first characters of a text end.
func endOf(text string, characters int) int {
	for at := range text {
		if characters == 0 {
			return at
		}
		characters--
	}
	return len(text)
}

// RankAt returns the place of the value of a field of an object. Objects and lists have that of a control character.
func (s *Subject) RankAt(path []Step) Rank {
	for value := range ValuesAt(path, s.JSON) {
		if text, scalar := textOf(value); scalar {
			return RankOf(text)
		}
		return RankOf(Container)
	}
	return RankOf("")
}
