// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

func TestParametersAreReadFromTheURLAndFromLabels(t *testing.T) {
	march := time.Date(2022, 3, 24, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		query url.Values
		// label is written as a label selector instead.
		label string
		want  Query
	}{
		"nothing":                  {want: Query{WithRemaining: true}},
		"names":                    {url.Values{"names": {"a, b"}}, "search.clusterpedia.io/names in (a, b)", Query{Names: Choice{In: []string{"a", "b"}}}},
		"clusters":                 {url.Values{"clusters": {"one"}}, "search.clusterpedia.io/clusters=one", Query{Clusters: Choice{In: []string{"one"}}}},
		"namespaces":               {url.Values{"namespaces": {"x"}}, "search.clusterpedia.io/namespaces==x", Query{Namespaces: Choice{In: []string{"x"}}}},
		"namespaces left out":      {label: "search.clusterpedia.io/namespaces notin (x,y)", want: Query{Namespaces: Choice{NotIn: []string{"x", "y"}}}},
		"a cluster left out":       {label: "search.clusterpedia.io/clusters!=x", want: Query{Clusters: Choice{NotIn: []string{"x"}}}},
		"namespaced":               {label: "search.clusterpedia.io/namespaces", want: Query{Namespaces: Choice{Exists: true}}},
		"not namespaced":           {label: "!search.clusterpedia.io/namespaces", want: Query{Namespaces: Choice{Missing: true}}},
		"order":                    {url.Values{"orderby": {"name desc,created_at"}}, "search.clusterpedia.io/orderby in (name_desc,created_at)", Query{Order: []Order{{Column: Name, Descending: true}, {Column: CreatedAt, Descending: false}}}},
		"order, written otherwise": {url.Values{"orderby": {"created_at asc, name"}}, "search.clusterpedia.io/orderby in (created_at,name)", Query{Order: []Order{{Column: CreatedAt, Descending: false}, {Column: Name, Descending: false}}}},
		"order by a column with _": {url.Values{"orderby": {"resource_version desc"}}, "search.clusterpedia.io/orderby=resource_version_desc", Query{Order: []Order{{Column: ResourceVersion, Descending: true}}}},
		"order by fields": {url.Values{"orderby": {"spec.replicas desc, metadata.annotations['a,b/c'] asc,spec.list[1].x,.type"}}, "", Query{Order: []Order{
			{Path: steps("spec", "replicas"), Descending: true}, {Path: steps("metadata", "annotations", "a,b/c")}, {Path: append(steps("spec", "list"), Step{Index: 1}, Step{Name: "x"})}, {Path: steps("type")},
		}}},
		"order by a field, a label": {label: "search.clusterpedia.io/orderby in (spec.replicas_desc,name)", want: Query{Order: []Order{{Path: steps("spec", "replicas"), Descending: true}, {Column: Name}}}},
		"owner's UID":               {url.Values{"ownerUID": {"u"}}, "search.clusterpedia.io/owner-uid=u", Query{Owner: &Owner{UID: "u"}}},
		"owner's UID, older names":  {url.Values{"ownerID": {"u"}}, "internalstorage.clusterpedia.io/owner-uid=u", Query{Owner: &Owner{UID: "u"}}},
		"owner's name and resource": {url.Values{"ownerName": {"web"}, "ownerGR": {"deployments.apps"}, "ownerSeniority": {"1"}}, "search.clusterpedia.io/owner-name=web,search.clusterpedia.io/owner-gr=deployments.apps,search.clusterpedia.io/owner-seniority=1", Query{Owner: &Owner{Name: "web", Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Seniority: 1}}},
		"since a day":               {url.Values{"since": {"2022-03-24"}}, "search.clusterpedia.io/since=2022-03-24", Query{Since: march}},
		"since a second":            {url.Values{"since": {"1648080000"}}, "search.clusterpedia.io/since=1648080000", Query{Since: march.Local()}},
		"before a millisecond":      {url.Values{"before": {"1648080000000"}}, "search.clusterpedia.io/before=1648080000000", Query{Before: march.Local()}},
		"since an RFC's time":       {query: url.Values{"since": {"2022-03-24T00:00:00Z"}}, want: Query{Since: march}},
		"since a time":              {query: url.Values{"since": {"2022-03-24 00:00:00"}}, want: Query{Since: march}},
		"a page":                    {url.Values{"limit": {"5"}, "continue": {"10"}}, "search.clusterpedia.io/limit=5,search.clusterpedia.io/offset=10", Query{Limit: 5, Offset: 10}},
		"the size of a page":        {label: "search.clusterpedia.io/size=5", want: Query{Limit: 5}},
		"a revision":                {url.Values{"at": {"1234"}}, "search.clusterpedia.io/at=1234", Query{At: &Moment{Revision: 1234}}},
		"a moment":                  {url.Values{"at": {"2022-03-24"}, "differsFrom": {"now"}}, "search.clusterpedia.io/at=2022-03-24,search.clusterpedia.io/differs-from=now", Query{At: &Moment{Time: march}, DiffersFrom: &Moment{Latest: true}}},
		"a token":                   {url.Values{"withContinue": {"true"}}, "search.clusterpedia.io/with-continue=true", Query{WithContinue: true}},
		"a fuzzy name":              {label: "internalstorage.clusterpedia.io/fuzzy-name=ngin", want: Query{Fuzzy: []string{"ngin"}}},
		"a fuzzy name, shorter":     {label: "search.clusterpedia.io/fuzzy-name=ngin", want: Query{Fuzzy: []string{"ngin"}}},
		"a limit of age":            {url.Values{"maxStaleness": {"30s"}}, "search.clusterpedia.io/max-staleness=30s", Query{MaxStaleness: 30 * time.Second}},
		"ages":                      {url.Values{"withStaleness": {"true"}}, "search.clusterpedia.io/with-staleness", Query{WithStaleness: true}},
		"no limit":                  {query: url.Values{"limit": {"-1"}}, want: Query{}},
		"what clients add":          {query: url.Values{"_": {"1700000000"}}, want: Query{Unknown: []string{"_"}}},
		"words":                     {query: url.Values{"words": {" Shop  Front:1.2 "}}, want: Query{Words: []string{"shop", "front:1.2"}}},
		"words of a label":          {label: "search.clusterpedia.io/words in (Web,shop)", want: Query{Words: []string{"web", "shop"}}},
		"groups":                    {query: url.Values{"groupBy": {"cluster, metadata.labels['a,b'],.x"}}, want: Query{GroupBy: []GroupBy{{Text: "cluster", Column: Cluster}, {Text: "metadata.labels['a,b']", Path: steps("metadata", "labels", "a,b")}, {Text: ".x", Path: steps("x")}}}},
		"groups of a label":         {label: "search.clusterpedia.io/group-by in (status.phase,kind)", want: Query{GroupBy: []GroupBy{{Text: "status.phase", Path: steps("status", "phase")}, {Text: "kind", Column: Kind}}}},
		"only metadata":             {query: url.Values{"onlyMetadata": {"true"}}, want: Query{OnlyMetadata: true}},
		"Kubernetes' own":           {query: url.Values{"resourceVersion": {"0"}, "timeoutSeconds": {"3"}, "pretty": {"1"}}, want: Query{}},
		"the URL has precedence":    {query: url.Values{"clusters": {"a"}, "labelSelector": {"search.clusterpedia.io/clusters=b"}}, want: Query{Clusters: Choice{In: []string{"a"}}}},
		"both labels must hold":     {label: "search.clusterpedia.io/names in (a,b),search.clusterpedia.io/names in (b,c)", want: Query{Names: Choice{In: []string{"b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.WithRemaining = true
			if test.query != nil || test.label == "" {
				got, err := Parse(test.query)
				require.NoError(t, err)
				assert.Equal(t, test.want, *got)
			}
			if test.label != "" {
				got, err := Parse(url.Values{"labelSelector": {test.label}})
				require.NoError(t, err)
				assert.Equal(t, test.want, *got)
			}
		})
	}
	got, err := Parse(url.Values{"withRemainingCount": {"false"}})
	require.NoError(t, err)
	assert.False(t, got.WithRemaining)
}

func TestPagesGoOnWithTheMomentsOfTheFirst(t *testing.T) {
	from, remaining := int64(0), int64(7)
	for _, p := range []Position{{Revision: 5, After: 3}, {Revision: 5, After: 3, DiffersFrom: &from, Remaining: &remaining, Rights: 1<<64 - 1}} {
		got, err := Parse(url.Values{"continue": {p.String()}, "at": {"10m"}, "differsFrom": {"now"}})
		require.NoError(t, err)
		assert.Equal(t, &p, got.After)
		assert.Equal(t, &Moment{Revision: 5}, got.At)
		assert.Equal(t, p.DiffersFrom != nil, got.DiffersFrom != nil)
	}
	exact, err := Parse(url.Values{"resourceVersion": {"5"}, "resourceVersionMatch": {"Exact"}})
	require.NoError(t, err)
	assert.Equal(t, &Moment{Revision: 5}, exact.At)
	ago, err := Parse(url.Values{"at": {"10m"}})
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(-10*time.Minute), ago.At.Time, time.Minute)
}

func TestLabelsOfObjectsAreKept(t *testing.T) {
	got, err := Parse(url.Values{"labelSelector": {"app=web,search.clusterpedia.io/names=a,tier in (x),other.clusterpedia.io/a=b"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, got.Names.In)
	assert.Equal(t, "app=web,other.clusterpedia.io/a=b,tier in (x)", labels.NewSelector().Add(got.Labels...).String())
}

func TestParametersThatCannotBeMeant(t *testing.T) {
	for query, want := range map[string]string{
		"cluster=east":                     "parameter cluster is unknown, but there is clusters: parameters are",
		"owner-name=web":                   "but there is ownerName",
		"fieldselector=a=b":                "but there is fieldSelector",
		"labelselector=a":                  "but there is labelSelector",
		"fuzzyName=web":                    "but there is the label search.clusterpedia.io/fuzzy-name",
		"limit=--1":                        "is not a number",
		"groupBy=a.a,a.b,a.c,a.d":          "more than 3",
		"groupBy=name":                     "columns are cluster, namespace, group",
		"groupBy=a.b[]":                    "name one element",
		"groupBy=a.b,":                     "a field is a path",
		"groupBy=kind&at=10m":              "excludes at",
		"groupBy=kind&orderby=name":        "excludes continue",
		"groupBy=kind&limit=1001":          "1000 groups at most",
		"words=a+b+c+d+e+f+g+h+i":          "more than 8 words",
		"words=" + strings.Repeat("x", 65): "more than 64 characters",
		"word=web":                         "but there is words",
		"labelSelector=search.clusterpedia.io%2Fwords": "needs words",
		"whereSQL=1%3D1":                                    "SQL in requests is not accepted",
		"orderby=name%3Bdrop":                               `"name;drop" is no column: columns are cluster, namespace`,
		"orderby=name+down":                                 "is no column",
		"orderby=spec.list[].x":                             "name one element of a list",
		"orderby=replicas":                                  "is no column: columns are",
		"orderby=a.b,":                                      `"" is no column`,
		"orderby=a.a,a.b,a.c,a.d,a.e,a.f,a.g,a.h,a.i":       "more than 8",
		"limit=many":                                        "is not a number",
		"continue=abc":                                      "is neither a token of an earlier page nor a number",
		"continue=99999999999999999999":                     "is not a number",
		"at=yesterday":                                      `"yesterday" is no moment: write a time such as`,
		"differsFrom=-5m":                                   "is no moment",
		"at=10m&injectEvents=true":                          "at and differsFrom exclude injectEvents",
		"differsFrom=10m&maxStaleness=30s":                  "at and differsFrom exclude",
		"resourceVersionMatch=Exact":                        "Exact needs a resourceVersion",
		"resourceVersionMatch=Exact&at=5&resourceVersion=5": "excludes at",
		"since=soon":                                        "is no time: write",
		"since=12345":                                       "is no time",
		"withContinue=perhaps":                              "neither true nor false",
		"ownerSeniority=1":                                  "needs a UID or a name",
		"ownerSeniority=99":                                 "from 0 to 8",
		"ownerUID=a&ownerName=b":                            "exclude one another",
		"since=2022-03-24&before=2022-03-23":                "since is after before",
		"maxStaleness=30":                                   `"30" is not a time such as 30s`,
		"maxStaleness=0s":                                   "is not a time such as 30s",
		"resourceVersionMatch=Roughly":                      "only NotOlderThan and Exact",
		"labelSelector=a==":                                 "",
		"labelSelector=a+b":                                 "parameter labelSelector",
		"labelSelector=search.clusterpedia.io%2Fcolour%3Dred":        "label search.clusterpedia.io/colour: is unknown",
		"labelSelector=search.clusterpedia.io%2Fforward%3Dtrue":      "not forwarded",
		"labelSelector=search.clusterpedia.io%2Fowner-uid+notin+(a)": "needs one value, with =",
		"labelSelector=search.clusterpedia.io%2Flimit+in+(1,2)":      "needs one value",
		"labelSelector=search.clusterpedia.io%2Fnames>3":             "< and > are not possible",
		"fieldSelector=a.b":   "",
		"fieldSelector=a.b+c": "parameter fieldSelector",
	} {
		t.Run(query, func(t *testing.T) {
			values, err := url.ParseQuery(query)
			require.NoError(t, err)
			_, err = Parse(values)
			if want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestSelectorsAreBounded(t *testing.T) {
	values := func(n int) string { return "(" + strings.Repeat("v,", n-1) + "v)" }
	distinct := func(from, to int) string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, "v"+strconv.Itoa(i))
		}
		return "(" + strings.Join(all, ",") + ")"
	}
	list := func(term string, n int) string { return strings.TrimSuffix(strings.Repeat(term+",", n), ",") }
	const tooMany = "more than 1000 values"
	for name, test := range map[string]struct {
		parameter, value, want string
	}{
		"labels":                      {"labelSelector", "a in " + distinct(0, 1000), ""},
		"labels, too many":            {"labelSelector", "a in " + distinct(0, 1001), tooMany},
		"labels, too many in sum":     {"labelSelector", "a in " + distinct(0, 600) + ",b notin " + distinct(0, 600), tooMany},
		"conditions about labels":     {"labelSelector", list("a", 64), ""},
		"conditions, too many":        {"labelSelector", list("!a", 65), "more than 64 requirements"},
		"fields":                      {"fieldSelector", "a in " + values(1000), ""},
		"fields, too many":            {"fieldSelector", "a in " + values(1001), tooMany},
		"fields, too many in sum":     {"fieldSelector", "a in " + values(600) + ",b notin " + values(600), tooMany},
		"fields of requirements":      {"fieldSelector", strings.Repeat("a|b|c|d|e|f|g|h=1,", 8), ""},
		"fields, one more":            {"fieldSelector", strings.Repeat("a|b|c|d|e|f|g|h=1,", 8) + "i=1", "more than 64"},
		"fields, many more":           {"fieldSelector", strings.Repeat("a|b|c|d|e|f|g|h=1,", 9), "more than 64 fields"},
		"steps of fields":             {"fieldSelector", strings.Repeat(strings.Repeat(".a", 30)+"=1,", 17), ""},
		"steps of fields, too many":   {"fieldSelector", strings.Repeat(strings.Repeat(".a", 30)+"=1,", 18), "512 steps"},
		"parameters":                  {"labelSelector", "search.clusterpedia.io/names notin " + distinct(0, 1000), ""},
		"parameters, too many":        {"labelSelector", "search.clusterpedia.io/names in " + distinct(0, 1001), tooMany},
		"parameters, too many in sum": {"labelSelector", "search.clusterpedia.io/names notin " + distinct(0, 600) + ",search.clusterpedia.io/names notin " + distinct(600, 1200), tooMany},
		"parameters beside labels":    {"labelSelector", "search.clusterpedia.io/names in " + distinct(0, 1000) + ",a in " + distinct(0, 1000), ""},
		"parts of names":              {"labelSelector", "search.clusterpedia.io/fuzzy-name in " + distinct(0, 65), "more than 64 values"},
		"columns, too many in sum":    {"labelSelector", "search.clusterpedia.io/orderby in (name,uid,kind,group,version),search.clusterpedia.io/orderby in (cluster,namespace,resource,created_at)", "more than 8 columns"},
		"names in the URL":            {"names", list("x", 1001), tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(url.Values{test.parameter: {test.value}})
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
}

// steps returns a path of names.
func steps(names ...string) (path []Step) {
	for _, name := range names {
		path = append(path, Step{Name: name})
	}
	return path
}

func TestFieldSelectors(t *testing.T) {
	of := func(names ...string) [][]Step { return [][]Step{steps(names...)} }
	after := func(path []Step, more ...Step) [][]Step { return [][]Step{append(path, more...)} }
	for text, want := range map[string][]Field{
		"":                                   nil,
		"status.phase=Running":               {{Paths: of("status", "phase"), Operator: selection.Equals, Values: []string{"Running"}}},
		".status.phase == Running":           {{Paths: of("status", "phase"), Operator: selection.Equals, Values: []string{"Running"}}},
		"a!=b,c":                             {{Paths: of("a"), Operator: selection.NotEquals, Values: []string{"b"}}, {Paths: of("c"), Operator: selection.Exists}},
		"!a.b":                               {{Paths: of("a", "b"), Operator: selection.DoesNotExist}},
		"a in (b, c)":                        {{Paths: of("a"), Operator: selection.In, Values: []string{"b", "c"}}},
		"a notin(b),in=x":                    {{Paths: of("a"), Operator: selection.NotIn, Values: []string{"b"}}, {Paths: of("in"), Operator: selection.Equals, Values: []string{"x"}}},
		"spec.nodeName=":                     {{Paths: of("spec", "nodeName"), Operator: selection.Equals, Values: []string{""}}},
		"metadata.annotations['a.b/c']=d":    {{Paths: of("metadata", "annotations", "a.b/c"), Operator: selection.Equals, Values: []string{"d"}}},
		`metadata.annotations."a.b/c"=d`:     {{Paths: of("metadata", "annotations", "a.b/c"), Operator: selection.Equals, Values: []string{"d"}}},
		"spec.containers[].image=nginx:1.25": {{Paths: after(steps("spec", "containers"), Step{Index: -1}, Step{Name: "image"}), Operator: selection.Equals, Values: []string{"nginx:1.25"}}},
		"spec.containers[1].image=x":         {{Paths: after(steps("spec", "containers"), Step{Index: 1}, Step{Name: "image"}), Operator: selection.Equals, Values: []string{"x"}}},
		"spec.args[*]=x":                     {{Paths: after(steps("spec", "args"), Step{Index: -1}), Operator: selection.Equals, Values: []string{"x"}}},
		`a=b\,c\=d`:                          {{Paths: of("a"), Operator: selection.Equals, Values: []string{"b,c=d"}}},
		`a="b" (c)`:                          {{Paths: of("a"), Operator: selection.Equals, Values: []string{`"b" (c)`}}},
		"a= b\t,,b=c ":                       {{Paths: of("a"), Operator: selection.Equals, Values: []string{" b\t"}}, {Paths: of("b"), Operator: selection.Equals, Values: []string{"c "}}},
		`a|b.c | d icontains (B, "c d")`:     {{Paths: [][]Step{steps("a"), steps("b", "c"), steps("d")}, Operator: Contains, Values: []string{"B", "c d"}, IgnoreCase: true}},
		"! a startswith(b),c":                {{Paths: of("a"), Operator: StartsWith, Values: []string{"b"}, Not: true}, {Paths: of("c"), Operator: selection.Exists}},
		"a|b!=c,!a|b":                        {{Paths: [][]Step{steps("a"), steps("b")}, Operator: selection.NotEquals, Values: []string{"c"}}, {Paths: [][]Step{steps("a"), steps("b")}, Operator: selection.DoesNotExist}},
		"contains=contains":                  {{Paths: of("contains"), Operator: selection.Equals, Values: []string{"contains"}}},
		"a = b , c":                          {{Paths: of("a"), Operator: selection.Equals, Values: []string{"b"}}, {Paths: of("c"), Operator: selection.Exists}},
		`a in ("b, (c)", d\,e)`:              {{Paths: of("a"), Operator: selection.In, Values: []string{"b, (c)", "d,e"}}},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseFields(text)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	for text, want := range map[string]string{
		"=a": "expected the name of a field", "a b": "expected one of", "a in b": "expected (", "a in (b": "expected a comma or )", "a[": "expected ]",
		"a[x]=1": "needs quotes", "[0]=1": "an object is no list", "a.": "expected the name", "a..b": "expected the name", "a['b=1": "expected a name that ends",
		`a in ("b`: "does not end", `a=\`: "invalid escape", `a=\b`: "invalid escape", "a=b=c": "unescaped character", `a in (\`: "nothing follows", "a['']=1": "expected a name", "!a=b": "expected a comma, contains", "a contains b": "expected (", `a contains ("")`: "the empty text", "a|=b": "expected the name", "a|b|c|d|e|f|g|h|i": "more than 8",
		"a contains (" + strings.Repeat("b,", 32) + "b)": "more than 32 texts", `a['b"c']=1`: "without quotes",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseFields(text)
			assert.ErrorContains(t, err, want)
		})
	}
}

// TestFieldSelectorsOfKubernetesMeanTheSame holds for all texts that Kubernetes accepts and whose labels are such as Kubernetes has.
func TestFieldSelectorsOfKubernetesMeanTheSame(t *testing.T) {
	parts := []string{"a", "spec.b", ".", "=", "==", "!=", "=", "!", ",", ",", `\`, `\,`, `\=`, `\\`, `"`, "'", " ", "\t", "\n", "(", ")", "[", "]", "x", "in", " in (", "|", "~", "", "\u00e9", "\x00"}
	label := regexp.MustCompile(`^[a-z]+(\.[a-z]+)*$`)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	accepted := 0
	for range 200_000 {
		var b strings.Builder
		for range 1 + r.IntN(10) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		theirs, err := fields.ParseSelector(text)
		if err != nil || slices.ContainsFunc(theirs.Requirements(), func(r fields.Requirement) bool { return !label.MatchString(r.Field) }) {
			continue
		}
		ours, err := ParseFields(text)
		require.NoError(t, err, "seed %d, %q", seed, text)
		var got []fields.Requirement
		for _, f := range ours {
			var names []string
			for _, step := range f.Paths[0] {
				names = append(names, step.Name)
			}
			require.Len(t, f.Values, 1, "seed %d, %q", seed, text)
			got = append(got, fields.Requirement{Field: strings.Join(names, "."), Operator: f.Operator, Value: f.Values[0]})
		}
		require.ElementsMatch(t, theirs.Requirements(), got, "seed %d, %q", seed, text)
		if len(got) > 0 {
			accepted++
		}
	}
	assert.Greater(t, accepted, 1000)
}
