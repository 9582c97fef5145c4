// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheListOfProjectsIsValid(t *testing.T) {
	projects, err := readProjects(projectsFile)
	require.NoError(t, err)
	assert.NotEmpty(t, projects)
}

func TestAListOfProjectsIsRefused(t *testing.T) {
	const valid = `{name: a, repository: r, version: v1, commit: 24e33194fb39488eff2bbf10c6dc640f407cad44, packages: [p]`
	for _, test := range []struct{ name, list, want string }{
		{"with an unknown field", "[" + valid + ", extra: 1}]", "extra"},
		{"without packages", "[{name: a, repository: r, version: v1}]", "needs"},
		{"with a commit that is not pinned", "[" + strings.Replace(valid, "24e3", "", 1) + "}]", "whole SHA-1"},
		{"with a partition without groups", "[" + valid + ", partitions: ['a=']}]", "a: partitions: partition a: name at least one API group"},
		{"with a reason for nothing", "[" + valid + ", known: [{tests: '('}]}]", "pattern"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readProjects([]byte(test.list))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestResultsAreReadFromGoTest(t *testing.T) {
	const head = `{"Action":"run","Test":"TestA"}` + "\n"
	for _, test := range []struct {
		name, events string
		want         map[string]bool
		suite        string
	}{
		{
			"parts stand for their test", head + `{"Action":"pass","Test":"TestA/one"}
{"Action":"fail","Test":"TestA/two"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}
`, map[string]bool{"TestA/one": true, "TestA/two": false}, "",
		},
		{
			"a test fails after its parts", head + `{"Action":"pass","Test":"TestA/one"}
{"Action":"fail","Test":"TestA"}
`, map[string]bool{"TestA/one": true, "TestA": false}, "",
		},
		{
			"skipped tests do not count", head + `{"Action":"skip","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
`, map[string]bool{"TestB": true}, "",
		},
		{
			"the package fails before a test", `{"Action":"output","Output":"panic: no etcd\n"}
{"Action":"fail"}
`, map[string]bool{wholePackage: false}, "",
		},
		{
			"a suite of ginkgo", head + `{"Action":"output","Test":"TestA","Output":"Running Suite: Boats - /src\n"}
{"Action":"pass","Test":"TestA"}
`, map[string]bool{"TestA": true}, "TestA",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, suite, err := readEvents(strings.NewReader(test.events), io.Discard)
			require.NoError(t, err)
			dropParents(found)
			got := map[string]bool{}
			for name, one := range found {
				got[name] = one.Passed
			}
			assert.Empty(t, cmp.Diff(test.want, got))
			assert.Equal(t, test.suite, suite)
		})
	}
}

func TestSpecsStandForTheTestThatRunsThem(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	spec := func(text, state, node string) string {
		return `{"LeafNodeText":"` + text + `","LeafNodeType":"` + node + `","State":"` + state + `","ContainerHierarchyTexts":["Boats"]}`
	}
	require.NoError(t, os.WriteFile(report, []byte(`[{"SpecReports":[`+strings.Join([]string{
		spec("", "passed", "BeforeSuite"), spec("float", "passed", "It"), spec("float", "failed", "It"), spec("fly", "skipped", "It"), spec("", "failed", "AfterSuite"),
	}, ",")+`]}]`), 0o600))
	found := map[string]result{"TestA": {}, "TestB": {Passed: true}}
	require.NoError(t, addSpecs(found, "TestA", report))
	dropParents(found)
	got := map[string]bool{}
	for name, one := range found {
		got[name] = one.Passed
	}
	assert.Empty(t, cmp.Diff(map[string]bool{
		"TestA/Boats float": true, "TestA/Boats float (2)": false, "TestA/[AfterSuite]": false, "TestB": true,
	}, got))
}

func TestFailedTestsAreChosen(t *testing.T) {
	for _, test := range []struct {
		name, suite string
		failed      []string
		want        []string
	}{
		{"tests", "", []string{"TestA", "TestB/sub_(1)"}, []string{`-test.run=^TestA$|^TestB$/^sub_\(1\)$`}},
		{
			"specs", "TestS", []string{"TestS/a+b", "TestS/c (2)"},
			[]string{`-ginkgo.focus=a\+b`, `-ginkgo.focus=c`, "-test.run=^TestS$"},
		},
		{"a whole package", "", []string{wholePackage, "TestA"}, nil},
		{"what a suite does first", "TestS", []string{"TestS/[BeforeSuite]"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(test.want, chooseTests(test.failed, test.suite)))
		})
	}
}

var boats = project{
	Name: "Boats", Repository: "https://example.com/boats", Version: "v1", Packages: []string{"sea", "lake", "river"},
	Known: []known{{Tests: "neither", Reason: "needs wind"}},
}

func resultsOf(tests map[string]result) *results { return &results{Tests: tests, Took: time.Minute} }

func bothOf(t *testing.T) [2]*kept {
	t.Helper()
	dir := t.TempDir()
	var both [2]*kept
	for i, side := range []string{"stock", "Tripod"} {
		k, err := openKept(dir, side, "v1")
		require.NoError(t, err)
		both[i] = k
	}
	ok := result{Passed: true, Attempts: 1}
	require.NoError(t, both[stock].put(boats, "sea", resultsOf(map[string]result{
		"both": ok, "stock": ok, "missing": ok, "tripod": {}, "neither": {}, "flaky": ok,
	})))
	require.NoError(t, both[tripod].put(boats, "sea", resultsOf(map[string]result{
		"both": ok, "stock": {Failure: "leak"}, "tripod": ok, "neither": {}, "flaky": {Passed: true, Attempts: 2},
	})))
	require.NoError(t, both[stock].put(boats, "lake", resultsOf(map[string]result{"only stock ran": ok})))
	return both
}

func TestReportCountsWhatPassesOnStockOnly(t *testing.T) {
	var output strings.Builder
	table := compare([]project{boats}, bothOf(t))
	assert.Equal(t, 2, table.print(&output), "differences")
	for _, want := range []string{
		"fails on Tripod: Boats sea stock\n  leak", "fails on Tripod (did not run): Boats sea missing", "fails on stock: Boats sea tripod",
		"fails on stock, Tripod: Boats sea neither", "passed on Tripod when it ran once more: Boats sea flaky",
		"6 tests in 1 packages; stock: 4 passed in 1m0s; Tripod: 3 passed in 1m0s",
	} {
		assert.Contains(t, output.String(), want)
	}
}

func TestThePageHasEveryDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "operators.md")
	require.NoError(t, writeDocs(path, page{table: compare([]project{boats}, bothOf(t))}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "With partitions")
	for _, want := range []string{
		"| [Boats](https://example.com/boats) v1 | 1 | 6 | 4 | 3 | 1m0s | 1m0s | v1 | v1 |", "| Boats | sea: neither | stock, Tripod | needs wind |",
		"| Boats | sea: stock | Tripod | leak |", "| Boats | sea: flaky | Tripod |",
	} {
		assert.Contains(t, string(text), want)
	}
}

func TestThePageHasRunsWithPartitionsAndWithout(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "operators.md")
	for _, side := range []string{stockName, tripodName, dividedName} {
		k, err := openKept(dir, side, "v1")
		require.NoError(t, err)
		require.NoError(t, k.put(boats, "sea", resultsOf(map[string]result{"a": {Passed: true, Attempts: 1}, "b": {Passed: side != dividedName, Failure: "leak"}})))
	}
	for _, divided := range []bool{true, false} {
		o := &options{results: dir, docs: path, divided: divided}
		both, err := latest(dir, divided)
		require.NoError(t, err)
		require.NoError(t, o.write([]project{boats}, compare([]project{boats}, both)))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		whole, parts, _ := strings.Cut(string(text), "## With partitions")
		assert.Contains(t, whole, "| 1 | 2 | 2 | 2 |")
		assert.Contains(t, parts, "| 1 | 2 | 2 | 1 |")
		assert.Contains(t, parts, "| Boats | sea: b | partitions | leak |")
	}
}

func TestKubeAPIServerInPartsGetsItsPartitions(t *testing.T) {
	s := &side{assets: t.TempDir()}
	echo, err := exec.LookPath("echo")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(echo, filepath.Join(s.assets, "kube-apiserver")))
	require.NoError(t, s.divide())
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.assets, "kube-apiserver"), "--v=4")
	cmd.Dir = "/"
	cmd.Env = []string{partitionsVariable + "=a=example.com,*.example.org b=*"}
	output, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "kube-apiserver --v=4 --extensions-partition=a=example.com,*.example.org --extensions-partition=b=*\n", string(output))
}

func TestOnlyWhatIsNotKnownRuns(t *testing.T) {
	both := bothOf(t)
	o := &options{}
	assert.Equal(t, []int{tripod}, o.missing(boats, "sea", both), "what passes on stock only")
	assert.Equal(t, []int{tripod}, o.missing(boats, "lake", both), "what has run on stock")
	assert.Equal(t, []int{stock, tripod}, o.missing(boats, "river", both), "what has not run")
	require.NoError(t, both[tripod].put(boats, "lake", both[stock].get(boats, "lake")))
	assert.Empty(t, o.missing(boats, "lake", both), "what has passed")
	o.again = true
	assert.Equal(t, []int{tripod}, o.missing(boats, "lake", both), "what has passed, with -again")
}

func TestResultsAreKeptByVersion(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v1-dirty"} {
		k, err := openKept(dir, "Tripod", version)
		require.NoError(t, err)
		require.NoError(t, k.put(boats, "sea", resultsOf(map[string]result{"a": {Passed: true}})))
	}
	for version, want := range map[string]bool{"v1": true, "v2": false, "v1-dirty": false} {
		k, err := openKept(dir, "Tripod", version)
		require.NoError(t, err)
		assert.Equal(t, want, k.get(boats, "sea") != nil, version)
	}
}

func TestTheReportTakesTheLatestResultOfEachPackage(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, run := range []struct {
		side, version, name string
		passed              bool
	}{
		{"stock", "v1", "sea", true}, {"Tripod", "v1", "sea", false}, {"Tripod", "v1", "lake", true}, {"Tripod", "v2", "sea", true},
	} {
		k, err := openKept(dir, run.side, run.version)
		require.NoError(t, err)
		require.NoError(t, k.put(boats, run.name, resultsOf(map[string]result{"a": {Passed: run.passed}})))
		require.NoError(t, os.Chtimes(k.path, now, now.Add(time.Duration(i)*time.Hour)))
	}
	both, err := latest(dir, false)
	require.NoError(t, err)
	got := map[string]string{}
	for _, name := range []string{"sea", "lake"} {
		found := both[tripod].get(boats, name)
		assert.Empty(t, found.failed(), name)
		got[name] = found.version
	}
	assert.Equal(t, map[string]string{"sea": "v2", "lake": "v1"}, got)
}

func TestASecondRunCountsAttempts(t *testing.T) {
	first := resultsOf(map[string]result{"a": {Passed: true, Attempts: 1}, "b": {Attempts: 1}})
	first.merge(resultsOf(map[string]result{"a": {Attempts: 1}, "b": {Passed: true, Attempts: 1}}))
	assert.Empty(t, cmp.Diff(map[string]result{"a": {Passed: true, Attempts: 1}, "b": {Passed: true, Attempts: 2}}, first.Tests))
}

func TestPartsOfASecondRunReplaceTheirTest(t *testing.T) {
	first := resultsOf(map[string]result{"a": {Attempts: 1, Failure: "timeout"}, "b": {Attempts: 1}, "b/1": {Passed: true, Attempts: 1}, "ab": {Attempts: 1}})
	first.merge(resultsOf(map[string]result{"a/1": {Passed: true, Attempts: 1}, "a/2/3": {Attempts: 1}, "b": {Attempts: 1}, "b/1": {Passed: true, Attempts: 1}}))
	assert.Empty(t, cmp.Diff(map[string]result{
		"a/1": {Passed: true, Attempts: 1}, "a/2/3": {Attempts: 1},
		"b": {Attempts: 2}, "b/1": {Passed: true, Attempts: 1},
		"ab": {Attempts: 1},
	}, first.Tests))
}

func TestLeftoversAreKilled(t *testing.T) {
	s := &side{assets: t.TempDir()}
	program := filepath.Join(s.assets, "etcd")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sleep, program))
	left, other := exec.Command(program, "1h"), exec.Command(sleep, "1h")
	require.NoError(t, left.Start())
	require.NoError(t, other.Start())
	t.Cleanup(func() {
		require.NoError(t, other.Process.Kill(), "a process of somebody else was killed")
		assert.EqualError(t, other.Wait(), "signal: killed")
	})
	require.NoError(t, s.endLeftovers())
	assert.EqualError(t, left.Wait(), "signal: killed")
}

func TestSourcesArePinned(t *testing.T) {
	from := filepath.Join(t.TempDir(), "boats")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", from, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
		return strings.TrimSpace(string(output))
	}
	require.NoError(t, os.Mkdir(from, 0o755))
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "one")
	git("tag", "v1")
	p := boats
	p.Commit = git("rev-parse", "HEAD")
	p.Prepare = []string{"echo ${SOURCE} > prepared"}
	results := t.TempDir()
	c, err := openSources(t.Context(), p, filepath.Dir(from), results, "")
	require.NoError(t, err)
	prepared, err := os.ReadFile(filepath.Join(c.dir, "prepared"))
	require.NoError(t, err)
	assert.Equal(t, c.dir+"\n", string(prepared))

	git("commit", "--quiet", "--allow-empty", "-m", "two")
	git("tag", "--force", "v1")
	_, err = openSources(t.Context(), p, filepath.Dir(from), results, "")
	require.NoError(t, err, "sources that are there are not fetched")
	_, err = openSources(t.Context(), p, filepath.Dir(from), t.TempDir(), "")
	assert.ErrorContains(t, err, p.Commit, "a tag that has moved")
}
