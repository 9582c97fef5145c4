// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Domains of the labels that are parameters. All other labels are those of objects.
const (
	searchDomain = "search.clusterpedia.io/"
	// storageDomain has the parameters that Clusterpedia's storage adds, and the names that others once had.
	storageDomain = "internalstorage.clusterpedia.io/"
)

// parameter is a parameter of a search.
type parameter struct {
	// label is its name as a label, after the domain, and query its name in a URL. Either may be empty.
	label, query string
	// aliases are other names in a URL.
	aliases []string
	set     func(*Query, given) error
}

var parameters = []parameter{
	{label: "names", query: "names", set: choice(func(q *Query) *Choice { return &q.Names })},
	{label: "clusters", query: "clusters", set: choice(func(q *Query) *Choice { return &q.Clusters })},
	{label: "namespaces", query: "namespaces", set: choice(func(q *Query) *Choice { return &q.Namespaces })},
	{label: "orderby", query: "orderby", set: setOrder},
	{label: "group-by", query: "groupBy", set: setGroupBy},
	{label: "owner-uid", query: "ownerUID", aliases: []string{"ownerID"}, set: one(func(q *Query, v string) error {
		q.owner().UID = v
		return nil
	})},
	{label: "owner-name", query: "ownerName", set: one(func(q *Query, v string) error { q.owner().Name = v; return nil })},
	{label: "owner-gr", query: "ownerGR", set: one(func(q *Query, v string) error {
		q.owner().Resource = schema.ParseGroupResource(v)
		return nil
	})},
	{label: "owner-seniority", query: "ownerSeniority", set: number(0, maxSeniority, func(q *Query, n int64) {
		q.owner().Seniority = int(n)
	})},
	{label: "since", query: "since", set: one(func(q *Query, v string) (err error) { q.Since, err = parseTime(v); return err })},
	{label: "before", query: "before", set: one(func(q *Query, v string) (err error) { q.Before, err = parseTime(v); return err })},
	{label: "limit", query: "limit", set: setLimit},
	{label: "size", set: number(0, maxNumber, func(q *Query, n int64) { q.Limit = n })},
	{label: "offset", query: "continue", set: one(setContinue)},
	{label: "with-continue", query: "withContinue", set: yes(func(q *Query, v bool) { q.WithContinue = v })},
	{label: "with-remaining-count", query: "withRemainingCount", set: yes(func(q *Query, v bool) { q.WithRemaining = v })},
	{label: "fuzzy-name", set: setFuzzy},
	{label: "words", query: "words", set: setWords},
	{label: "inject-events", query: "injectEvents", set: yes(func(q *Query, v bool) { q.InjectEvents = v })},
	{label: "max-staleness", query: "maxStaleness", set: duration(func(q *Query, d time.Duration) { q.MaxStaleness = d })},
	{label: "with-staleness", query: "withStaleness", set: yes(func(q *Query, v bool) { q.WithStaleness = v })},
	{query: "onlyMetadata", set: yes(func(q *Query, v bool) { q.OnlyMetadata = v })},
	{query: "fieldSelector", set: func(q *Query, g given) (err error) { q.Fields, err = ParseFields(g.values[0]); return err }},
	{label: "at", query: "at", set: moment(func(q *Query, m *Moment) { q.At = m })},
	{label: "differs-from", query: "differsFrom", set: moment(func(q *Query, m *Moment) { q.DiffersFrom = m })},
	{query: "resourceVersion", set: number(0, maxNumber, func(q *Query, n int64) { q.ResourceVersion = n })},
	{query: "resourceVersionMatch", set: one(setMatch)},
}

// ignored are parameters of Kubernetes that change nothing of a list.
var ignored = sets.New("labelSelector", "pretty", "timeoutSeconds", "timeout", "allowWatchBookmarks", "includeObject", "watch",
	"sendInitialEvents")

// refused are parameters that Clusterpedia has, and the reason why they are refused.
var refused = map[string]string{
	"whereSQL":           "SQL in requests is not accepted: use fieldSelector",
	"whereSQLStatement":  "SQL in requests is not accepted: use fieldSelector",
	"whereSQLParam":      "SQL in requests is not accepted: use fieldSelector",
	"whereSQLJSONParams": "SQL in requests is not accepted: use fieldSelector",
	"forward":            "requests are not forwarded to clusters",
}

const (
	// MaxValues bounds the values of a parameter, and those of a selector over all of its requirements. A statement has each of them.
	MaxValues = 1000

	maxSeniority = 8
	maxNumber    = 1 << 53
	// maxRequirements bounds the requirements of a selector, and the fields that these name. A statement has a condition for each of them.
	maxRequirements = 64
)

// given is the value of a parameter.
type given struct {
	values []string
	// not is set for != and notin, exists for a key alone, and missing for "!key".
	not, exists, missing bool
	// label is set if the parameter is a label, where "desc" is separated by "_".
	label bool
}

// Parse reads the parameters of a URL. extra are other parameters that are not for this package. An error is for the client.
func Parse(values url.Values, extra ...string) (*Query, error) {
	q := &Query{WithRemaining: true}
	set := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if reason, no := refused[name]; no {
			return nil, fmt.Errorf("parameter %s: %s", name, reason)
		}
		if ignored.Has(name) || slices.Contains(extra, name) {
			continue
		}
		i := slices.IndexFunc(parameters, func(p parameter) bool { return p.query == name || slices.Contains(p.aliases, name) })
		if i < 0 {
			if meant := meantBy(name); meant != "" {
				return nil, fmt.Errorf("parameter %s is unknown, but there is %s: parameters are %s", name, meant, strings.Join(queryNames(), ", "))
			}
			q.Unknown = append(q.Unknown, name)
			continue
		}
		if values.Get(name) == "" {
			continue
		}
		if err := parameters[i].set(q, given{values: values[name][:1]}); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		set[parameters[i].label] = true
	}
	if err := q.readLabels(values.Get("labelSelector"), set); err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.After != nil { // the moments of all pages are those of the first
		q.At = &Moment{Revision: q.After.Revision}
		if q.DiffersFrom = nil; q.After.DiffersFrom != nil {
			q.DiffersFrom = &Moment{Revision: *q.After.DiffersFrom}
		}
	}
	return q, nil
}

// meantBy returns the parameter that a name resembles, or nothing: another case, hyphens, the name of a label, or the singular. Without it,
// a search would find too much. Kubernetes ignores all other names that it does not know, which some clients rely on.
func meantBy(name string) string {
	plain := func(name string) string {
		return strings.TrimSuffix(strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)), "s")
	}
	for _, p := range parameters {
		for _, known := range append([]string{p.query, p.label}, p.aliases...) {
			if known == "" || plain(known) != plain(name) {
				continue
			}
			return cmp.Or(p.query, "the label "+searchDomain+p.label)
		}
	}
	if plain(name) == plain("labelSelector") {
		return "labelSelector"
	}
	return ""
}

// readLabels reads a label selector. A parameter of the URL has precedence over its label, as in Clusterpedia.
func (q *Query) readLabels(text string, set map[string]bool) error {
	selector, err := labels.Parse(text)
	if err != nil {
		return fmt.Errorf("parameter labelSelector: %w", err)
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return errors.New("parameter labelSelector: selects nothing")
	}
	if len(requirements) > maxRequirements {
		return fmt.Errorf("parameter labelSelector: more than %d requirements", maxRequirements)
	}
	for _, r := range requirements {
		name, found := strings.CutPrefix(r.Key(), searchDomain)
		if !found {
			name, found = strings.CutPrefix(r.Key(), storageDomain)
		}
		if !found {
			q.Labels = append(q.Labels, r)
			continue
		}
		if err := q.readLabel(name, r, text, set); err != nil {
			return fmt.Errorf("label %s: %w", r.Key(), err)
		}
	}
	return nil
}

func (q *Query) readLabel(name string, r labels.Requirement, text string, set map[string]bool) error {
	if reason, no := refused[name]; no {
		return errors.New(reason)
	}
	i := slices.IndexFunc(parameters, func(p parameter) bool { return p.label == name })
	if name == "" || i < 0 {
		return fmt.Errorf("is unknown: parameters are %s", strings.Join(labelNames(), ", "))
	}
	if set[name] || name == "size" && set["limit"] {
		return nil
	}
	g, err := givenBy(r, text)
	if err != nil {
		return err
	}
	return parameters[i].set(q, g)
}

// check returns what is wrong with parameters together.
func (q *Query) check() error {
	if err := errors.Join(q.checkSelectors(), q.checkGroups()); err != nil {
		return err
	}
	switch {
	case !q.Since.IsZero() && !q.Before.IsZero() && q.Before.Before(q.Since):
		return errors.New("since is after before")
	case q.Owner != nil && q.Owner.UID == "" && q.Owner.Name == "":
		return errors.New("an owner needs a UID or a name: owner-uid or owner-name")
	case q.Owner != nil && q.Owner.UID != "" && q.Owner.Name != "":
		return errors.New("an owner has a UID or a name: owner-uid and owner-name exclude one another")
	case q.exact && (q.ResourceVersion == 0 || q.At != nil):
		return errors.New("resourceVersionMatch=Exact needs a resourceVersion, and excludes at")
	case (q.At != nil || q.DiffersFrom != nil || q.exact) && (q.InjectEvents || q.MaxStaleness > 0 || q.WithStaleness):
		return errors.New("at and differsFrom exclude injectEvents, maxStaleness and withStaleness")
	}
	if q.exact {
		q.At = &Moment{Revision: q.ResourceVersion}
	}
	return nil
}

// checkSelectors refuses selectors with too many values.
func (q *Query) checkSelectors() error {
	ofLabels, ofFields := 0, 0
	for _, r := range q.Labels {
		ofLabels += len(r.ValuesUnsorted())
	}
	for _, f := range q.Fields {
		ofFields += len(f.Paths) * len(f.Values)
	}
	for _, selector := range []struct {
		name   string
		values int
	}{{"labelSelector", ofLabels}, {"fieldSelector", ofFields}} {
		if selector.values > MaxValues {
			return fmt.Errorf("parameter %s: more than %d values: ask for some at a time", selector.name, MaxValues)
		}
	}
	return nil
}

func setFuzzy(q *Query, g given) error {
	q.Fuzzy = append(q.Fuzzy, g.values...)
	if len(q.Fuzzy) > maxRequirements {
		return fmt.Errorf("more than %d values", maxRequirements)
	}
	return nil
}

// setLimit reads a limit. A negative one is none, as in kube-apiserver.
func setLimit(q *Query, g given) error {
	if !g.label && strings.HasPrefix(g.values[0], "-") && strings.Trim(g.values[0], "0123456789") == "-" {
		q.Limit = 0
		return nil
	}
	return number(0, maxNumber, func(q *Query, n int64) { q.Limit = n })(q, g)
}

// setContinue reads a token, or Clusterpedia's number of objects to leave out.
func setContinue(q *Query, text string) (err error) {
	if strings.Trim(text, "0123456789") == "" {
		return number(0, maxNumber, func(q *Query, n int64) { q.Offset = n })(q, given{values: []string{text}})
	}
	q.After, err = ParsePosition(text)
	return err
}

func setMatch(q *Query, text string) error {
	switch metav1.ResourceVersionMatch(text) {
	case metav1.ResourceVersionMatchNotOlderThan:
	case metav1.ResourceVersionMatchExact:
		q.exact = true
	default:
		return errors.New("only NotOlderThan and Exact are possible")
	}
	return nil
}

func (q *Query) owner() *Owner {
	if q.Owner == nil {
		q.Owner = &Owner{}
	}
	return q.Owner
}

// one is a parameter with one value.
func one(set func(*Query, string) error) func(*Query, given) error {
	return func(q *Query, g given) error {
		if g.not || g.exists || g.missing || len(g.values) != 1 {
			return errors.New("needs one value, with =")
		}
		return set(q, strings.TrimSpace(g.values[0]))
	}
}

func moment(set func(*Query, *Moment)) func(*Query, given) error {
	return one(func(q *Query, text string) error {
		m, err := ParseMoment(text)
		set(q, m)
		return err
	})
}

func number(least, most int64, set func(*Query, int64)) func(*Query, given) error {
	return one(func(q *Query, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a number from %d to %d", text, least, most)
		}
		set(q, n)
		return nil
	})
}

// duration reads a time such as 30s. Nothing is as new as the member itself, so it must not be zero.
func duration(set func(*Query, time.Duration)) func(*Query, given) error {
	return one(func(q *Query, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a time such as 30s or 5m", text)
		}
		set(q, d)
		return nil
	})
}

// yes is a parameter that is on or off.
func yes(set func(*Query, bool)) func(*Query, given) error {
	return func(q *Query, g given) error {
		if g.exists || g.missing {
			set(q, g.exists)
			return nil
		}
		return one(func(q *Query, text string) error {
			v, err := strconv.ParseBool(text)
			if err != nil {
				return fmt.Errorf("%q is neither true nor false", text)
			}
			set(q, v)
			return nil
		})(q, g)
	}
}

// choice is a parameter with a list of values.
func choice(of func(*Query) *Choice) func(*Query, given) error {
	return func(q *Query, g given) error {
		c := of(q)
		if g.exists || g.missing {
			c.Exists, c.Missing = c.Exists || g.exists, c.Missing || g.missing
			return nil
		}
		values := g.values
		if !g.label {
			values = split(g.values[0])
		}
		if len(c.NotIn)+len(values) > MaxValues {
			return fmt.Errorf("more than %d values", MaxValues)
		}
		if g.not {
			c.NotIn = append(c.NotIn, values...)
			return nil
		}
		if len(c.In) > 0 { // both must hold
			values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(c.In, v) })
			if len(values) == 0 {
				c.Exists, c.Missing = true, true
			}
		}
		c.In = values
		return nil
	}
}

func split(text string) (values []string) {
	for value := range strings.SplitSeq(text, ",") {
		values = append(values, strings.TrimSpace(value))
	}
	return values
}

// parseTime reads the formats of Clusterpedia: RFC 3339, "2006-01-02 15:04:05", 2006-01-02, and seconds or milliseconds since 1970.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch len(text) {
		case 10:
			return time.Unix(n, 0), nil
		case 13:
			return time.UnixMilli(n), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2006-01-02T15:04:05Z, 2006-01-02 15:04:05, 2006-01-02, or seconds or milliseconds "+
		"since 1970", text)
}

func queryNames() (names []string) {
	for _, p := range parameters {
		if p.query != "" {
			names = append(names, p.query)
		}
	}
	slices.Sort(names)
	return append(names, "labelSelector")
}

func labelNames() (names []string) {
	for _, p := range parameters {
		if p.label != "" {
			names = append(names, searchDomain+p.label)
		}
	}
	slices.Sort(names)
	return names
}
