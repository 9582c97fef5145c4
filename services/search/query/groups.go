// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxGroups is by how many columns and fields objects can be counted.
const maxGroups = 3

// StandardGroups is how many groups an answer has if the client does not say.
const StandardGroups = 100

// MostGroups is how many groups a client may ask for.
const MostGroups = 1000

// GroupBy is a column or, if there is a path, a field by which objects are counted.
type GroupBy struct {
	// Text is what the client has written.
	Text   string
	Column Column
	Path   []Step
}

// groupColumns are the columns by which objects can be counted.
var groupColumns = []Column{Cluster, Namespace, Group, Version, Resource, Kind}

// setGroupBy reads columns and fields.
func setGroupBy(q *Query, g given) error {
	if g.not || g.exists || g.missing {
		return errors.New("needs =, == or in")
	}
	values := g.values
	if !g.label {
		values = splitOutsideQuotes(g.values[0])
	}
	if len(q.GroupBy)+len(values) > maxGroups {
		return fmt.Errorf("more than %d columns and fields", maxGroups)
	}
	for _, value := range values {
		text := strings.TrimSpace(value)
		group := GroupBy{Text: text, Column: Column(text)}
		if !slices.Contains(groupColumns, group.Column) {
			path, err := parsePlace(text)
			if err != nil {
				return fmt.Errorf("%q: %w; columns are %s", value, err, strings.Join(asTexts(groupColumns), ", "))
			}
			group = GroupBy{Text: text, Path: path}
		}
		q.GroupBy = append(q.GroupBy, group)
	}
	return nil
}

// parsePlace parses the path of a field with one value.
func parsePlace(text string) ([]Step, error) {
	p := &fieldParser{text: text}
	path, err := p.path()
	switch {
	case err != nil || p.more() || len(path) == 1 && !strings.HasPrefix(text, "."):
		return nil, errors.New("a field is a path such as status.phase or .type")
	case Condition{Path: path}.Every():
		return nil, errors.New("name one element of a list, as in spec.containers[0].image")
	}
	return path, nil
}

// checkGroups returns what is wrong with the parameters of a count together.
func (q *Query) checkGroups() error {
	switch {
	case len(q.GroupBy) == 0:
		return nil
	case q.At != nil || q.DiffersFrom != nil || q.exact:
		return errors.New("groupBy counts the latest state: it excludes at, differsFrom and resourceVersionMatch=Exact")
	case q.Offset > 0 || q.After != nil || q.WithContinue || len(q.Order) > 0 || q.InjectEvents:
		return errors.New("groupBy has one page, the largest groups first: it excludes continue, offset, withContinue, orderby and injectEvents")
	case q.Limit > MostGroups:
		return fmt.Errorf("groupBy has %d groups at most: limit is more", MostGroups)
	}
	return nil
}
