// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	// MaxSteps bounds the path of a field. MariaDB reads JSON of 31 levels at most, of which one is below the last step.
	MaxSteps = 30

	// maxPaths is how many fields a requirement may name, and maxTexts how many texts it may look for.
	maxPaths, maxTexts = 8, 32

	// maxSteps bounds the paths of a selector in sum. A watch keeps 130 bytes for each step.
	maxSteps = 512
)

// ParseFields parses a field selector. What Kubernetes accepts means the same here: requirements a=b, a==b and a!=b whose values reach up
// to the next comma, blanks and quotes included, and in which a backslash is before each comma, equals sign and backslash.
//
// Beyond that, it has the operators "a in (b, c)", "a notin (b, c)", a, and !a, and "a contains (b, c)" and "a startswith (b, c)" for one
// of some texts in a field, or at its beginning. With an i before them, A to Z are a to z, and with a ! before the field, no text must be
// there. a>b, a>=b, a<b and a<=b compare numbers and times. "a|b" names several fields, one of which must be as the requirement says.
// Paths are as in status.phase, metadata.annotations['example.com/a'], spec.containers[0].image and spec.containers[].image. Blanks before
// an operator do not count, and then neither do those around a value. In parentheses, a value may be in double quotes, which lets it have
// commas, blanks and parentheses, and a backslash lets any character be meant literally.
func ParseFields(text string) ([]Field, error) {
	p := &fieldParser{text: text}
	var all []Field
	paths, steps := 0, 0
	for p.next() {
		if len(all) == maxRequirements {
			return nil, fmt.Errorf("more than %d requirements", maxRequirements)
		}
		field, err := p.requirement()
		if err != nil {
			return nil, fmt.Errorf("at %q: %w", p.text[p.at:], err)
		}
		for _, path := range field.Paths {
			paths, steps = paths+1, steps+len(path)
		}
		if paths > maxRequirements || steps > maxSteps {
			return nil, fmt.Errorf("more than %d fields, or %d steps to them", maxRequirements, maxSteps)
		}
		all = append(all, field)
		if p.blanks(); p.more() && p.text[p.at] != ',' {
			return nil, fmt.Errorf("at %q: expected a comma", p.text[p.at:])
		}
	}
	return all, nil
}

type fieldParser struct {
	text string
	at   int
}

func (p *fieldParser) more() bool { return p.at < len(p.text) }

const blank = " \t\r\n"

// blanks skips blanks, and reports whether there were any.
func (p *fieldParser) blanks() (some bool) {
	from := p.at
	for p.more() && strings.IndexByte(blank, p.text[p.at]) >= 0 {
		p.at++
	}
	return p.at > from
}

// next goes to the next requirement. As in Kubernetes, there may be none between two commas, or one without a field and a value.
func (p *fieldParser) next() bool {
	for {
		p.blanks()
		term, _, comma := strings.Cut(p.text[p.at:], ",")
		if term != "" && term != "=" && term != "==" && term != "!=" {
			return true
		}
		if p.at += len(term); !comma {
			return false
		}
		p.at++
	}
}

func (p *fieldParser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// word takes a keyword that ends before a blank or a parenthesis.
func (p *fieldParser) word(word string) bool {
	rest, found := strings.CutPrefix(p.text[p.at:], word)
	if !found || rest == "" || !strings.ContainsRune(" \t\r\n(", rune(rest[0])) {
		return false
	}
	p.at += len(word)
	return true
}

func (p *fieldParser) requirement() (field Field, err error) {
	not := p.take("!")
	spaced := false
	for {
		p.blanks()
		path, err := p.path()
		if err != nil {
			return field, err
		}
		field.Paths = append(field.Paths, path)
		if spaced = p.blanks(); !p.take("|") {
			break
		}
		if len(field.Paths) == maxPaths {
			return field, fmt.Errorf("more than %d fields in a requirement", maxPaths)
		}
	}
	if not && (!p.more() || p.text[p.at] == ',') {
		field.Operator = selection.DoesNotExist
		return field, nil
	}
	if isText := p.textOperator(&field); isText {
		field.Not = not
		return field, p.texts(&field)
	}
	if not {
		return field, errors.New("expected a comma, contains, or startswith")
	}
	for _, c := range comparisons {
		if p.take(c.sign) {
			field.Operator = c.operator
			return field, p.bound(&field)
		}
	}
	switch {
	case !p.more() || p.text[p.at] == ',':
		field.Operator = selection.Exists
		return field, nil
	case p.take("!="):
		field.Operator = selection.NotEquals
	case p.take("=="), p.take("="):
		field.Operator = selection.Equals
	case p.word("notin"):
		field.Operator = selection.NotIn
	case p.word("in"):
		field.Operator = selection.In
	default:
		return Field{}, errors.New("expected one of =, ==, !=, >, >=, <, <=, in, notin, contains, icontains, startswith, istartswith")
	}
	if field.Operator == selection.In || field.Operator == selection.NotIn {
		p.blanks()
		field.Values, err = p.values()
		return field, err
	}
	value, err := p.literal()
	if spaced {
		value = strings.Trim(value, blank)
	}
	field.Values = []string{value}
	return field, err
}

// textOperator reads an operator that looks for texts, if there is one.
func (p *fieldParser) textOperator(field *Field) bool {
	for _, operator := range []selection.Operator{Contains, StartsWith} {
		if field.IgnoreCase = p.word("i" + string(operator)); field.IgnoreCase || p.word(string(operator)) {
			field.Operator = operator
			return true
		}
	}
	return false
}

// texts reads the texts to look for.
func (p *fieldParser) texts(field *Field) (err error) {
	p.blanks()
	field.Values, err = p.values()
	switch {
	case err != nil:
		return err
	case len(field.Values) > maxTexts:
		return fmt.Errorf("more than %d texts", maxTexts)
	case slices.Contains(field.Values, ""):
		return errors.New("each field contains the empty text")
	}
	return nil
}

// bound reads a number or a time.
func (p *fieldParser) bound(field *Field) error {
	value, err := p.literal()
	if err != nil {
		return err
	}
	value = strings.Trim(value, blank)
	field.Values = []string{value}
	field.Bound, err = parseBound(field.Operator, value)
	return err
}

// literal reads a value as Kubernetes does.
func (p *fieldParser) literal() (string, error) {
	from := p.at
	for ; p.more() && p.text[p.at] != ','; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at = min(p.at, len(p.text))
	value, err := fields.UnescapeValue(p.text[from:p.at])
	if err != nil {
		err = fmt.Errorf("%w: a comma, an equals sign and a backslash need a backslash before them, and nothing else may have one", err)
	}
	return value, err
}

func (p *fieldParser) values() (values []string, err error) {
	if !p.take("(") {
		return nil, errors.New("expected (")
	}
	for {
		p.blanks()
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		p.blanks()
		if p.take(")") {
			return values, nil
		}
		if !p.take(",") {
			return nil, errors.New("expected a comma or )")
		}
	}
}

// value reads a value of a list, up to a comma, a blank or a parenthesis, or to the end of a quotation.
func (p *fieldParser) value() (string, error) {
	if p.take(`"`) {
		end := strings.IndexByte(p.text[p.at:], '"')
		if end < 0 {
			return "", errors.New("the quotation does not end")
		}
		value := p.text[p.at : p.at+end]
		p.at += end + 1
		return value, nil
	}
	var value strings.Builder
	for p.more() {
		c := p.text[p.at]
		if strings.ContainsRune(", \t\r\n()", rune(c)) {
			break
		}
		p.at++
		if c == '\\' {
			if !p.more() {
				return "", errors.New("nothing follows the backslash")
			}
			c = p.text[p.at]
			p.at++
		}
		value.WriteByte(c)
	}
	return value.String(), nil
}

func (p *fieldParser) path() ([]Step, error) {
	var path []Step
	p.take(".") // as in .status.phase
	for {
		steps, err := p.steps(len(path) == 0)
		if err != nil {
			return nil, err
		}
		path = append(path, steps...)
		if len(path) > MaxSteps {
			return nil, fmt.Errorf("a path of more than %d steps", MaxSteps)
		}
		if !p.more() || p.text[p.at] != '.' && p.text[p.at] != '[' {
			break
		}
		p.take(".")
	}
	return path, nil
}

// steps reads a name, or what is in brackets.
func (p *fieldParser) steps(first bool) ([]Step, error) {
	if p.take("[") {
		return p.bracket(first)
	}
	if name, quoted, err := p.quotedName(); quoted {
		return []Step{{Name: name}}, err
	}
	end := strings.IndexFunc(p.text[p.at:], func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(".[]=!<>()|, '\"\\", r) })
	if end < 0 {
		end = len(p.text) - p.at
	}
	if end == 0 {
		return nil, errors.New("expected the name of a field")
	}
	name := p.text[p.at : p.at+end]
	p.at += end
	return []Step{{Name: name}}, nil
}

func (p *fieldParser) bracket(first bool) ([]Step, error) {
	name, quoted, err := p.quotedName()
	if err != nil {
		return nil, err
	}
	inside, _, closed := strings.Cut(p.text[p.at:], "]")
	if !closed {
		return nil, errors.New("expected ]")
	}
	p.at += len(inside) + 1
	switch {
	case quoted && inside != "":
		return nil, errors.New("expected ] after the quotation")
	case quoted:
		return []Step{{Name: name}}, nil
	case first:
		return nil, errors.New("an object is no list")
	case inside == "" || inside == "*":
		return []Step{{Index: -1}}, nil
	}
	index, err := strconv.Atoi(inside)
	if err != nil || index < 0 || index > 1<<20 {
		return nil, fmt.Errorf("%q is no place in a list: a name in brackets needs quotes", inside)
	}
	return []Step{{Index: index}}, nil
}

// quotedName reads a name in single or double quotes.
func (p *fieldParser) quotedName() (name string, quoted bool, err error) {
	if !p.more() || p.text[p.at] != '\'' && p.text[p.at] != '"' {
		return "", false, nil
	}
	quote := p.text[p.at]
	end := strings.IndexByte(p.text[p.at+1:], quote)
	if end <= 0 {
		return "", true, errors.New("expected a name that ends with a quote")
	}
	name = p.text[p.at+1 : p.at+1+end]
	if strings.ContainsAny(name, "\"'\\") || strings.ContainsFunc(name, unicode.IsControl) {
		return "", true, fmt.Errorf("%q is no name of a field: names are without quotes and backslashes", name)
	}
	p.at += end + 2
	return name, true, nil
}

// MustPath returns the path that a constant text names, as a field selector does.
func MustPath(text string) []Step {
	p := &fieldParser{text: text}
	path, err := p.path()
	if err != nil || p.more() {
		panic(fmt.Sprintf("%q is no path: %v", text, err))
	}
	return path
}
