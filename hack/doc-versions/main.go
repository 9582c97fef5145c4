// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command doc-versions checks the versions and counts on pages against their sources, and writes them there with -fix:
//
//   - patch versions of Kubernetes and etcd, as go.mod and kube/*/go.mod require them;
//   - the minor version of Kubernetes where a page says which one Tripod is;
//   - the table of what works together;
//   - how many conformance specs pass, as docs/conformance.md says.
//
// Pages that a command writes, and records of the past, stay as they are.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// written are pages of reports and of the past.
var written = regexp.MustCompile(`^(docs/design/|docs/benchmarks|docs/conformance\.md|docs/operators\.md|docs/faults\.md|CHANGELOG\.md)`)

func main() {
	fix := flag.Bool("fix", false, "write the pages")
	flag.Parse()
	stale, err := run(*fix)
	for _, line := range stale {
		fmt.Fprintln(os.Stderr, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "doc-versions:", err)
		os.Exit(1)
	}
	if len(stale) > 0 && !*fix {
		fmt.Fprintln(os.Stderr, "go run ./hack/doc-versions -fix writes them")
		os.Exit(1)
	}
}

func run(fix bool) (stale []string, err error) {
	f, err := look()
	if err != nil {
		return nil, err
	}
	pages, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		return nil, err
	}
	for _, page := range strings.Fields(string(pages)) {
		if written.MatchString(page) {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		updated, err := f.apply(page, string(text))
		if err != nil {
			return nil, err
		}
		if updated == string(text) {
			continue
		}
		stale = append(stale, differences(page, string(text), updated)...)
		if fix {
			if err := os.WriteFile(page, []byte(updated), 0o644); err != nil {
				return nil, err
			}
		}
	}
	return stale, nil
}

// differences has a line for each line that changes. No change adds or removes lines.
func differences(page, before, after string) (lines []string) {
	now := strings.Split(after, "\n")
	for i, line := range strings.Split(before, "\n") {
		if line != now[i] {
			lines = append(lines, fmt.Sprintf("%s:%d: %s\n\tis stale: %s", page, i+1, strings.TrimSpace(line), strings.TrimSpace(now[i])))
		}
	}
	return lines
}

// facts are what pages may say.
type facts struct {
	// minor is the newest minor version of Kubernetes that Tripod is built from, as in 1.37.
	minor string
	// etcds are the whole versions of etcd, the oldest first.
	etcds []string
	// patches has the whole version of each minor version, of Kubernetes and of etcd: 1.37 is 1.37.2.
	patches map[string]string
	// passed, rolling and specs are counts of docs/conformance.md.
	passed, rolling, specs string
}

// allSpecs is the row of the report that has all specs: their number, and those that pass on the drop-in, in static pods, and under rolls.
var allSpecs = regexp.MustCompile(`(?m)^\| all \| (\d+) \| \*\*(\d+)\*\* of \d+ \| \*\*\d+\*\* of \d+ \| \*\*(\d+)\*\* of`)

func look() (*facts, error) {
	f := &facts{patches: map[string]string{}}
	older, err := filepath.Glob("kube/*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, file := range append(older, "go.mod") { // the newest comes last
		if err := f.require(file); err != nil {
			return nil, err
		}
	}
	if f.minor == "" || len(f.etcds) < 2 { // pages have a column for the newer version, and one for the older
		return nil, fmt.Errorf("go.mod and kube/*/go.mod require k8s.io/kubernetes %q and %d versions of go.etcd.io/etcd/server/v3, and pages "+
			"need two: add the older version, or change hack/doc-versions and %s", f.minor, len(f.etcds), versionsPage)
	}
	page, err := os.ReadFile("docs/conformance.md")
	if err != nil {
		return nil, err
	}
	row := allSpecs.FindStringSubmatch(string(page))
	if row == nil {
		return nil, fmt.Errorf("docs/conformance.md has no row of all specs")
	}
	f.specs, f.passed, f.rolling = row[1], row[2], row[3]
	return f, nil
}

// require reads the versions of a go.mod.
func (f *facts) require(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	module, err := modfile.ParseLax(file, data, nil)
	if err != nil {
		return err
	}
	for _, required := range module.Require {
		version := strings.TrimPrefix(required.Mod.Version, "v")
		minor := version[:max(0, strings.LastIndex(version, "."))]
		switch required.Mod.Path {
		case "k8s.io/kubernetes":
			f.patches[minor], f.minor = version, minor
		case "go.etcd.io/etcd/server/v3":
			f.patches[minor] = version
			f.etcds = append(f.etcds, version)
		}
	}
	return nil
}

var (
	// A patch version 0 is that of the first release, of which pages say the date.
	ofKubernetes = regexp.MustCompile(`\bv?(1\.[3-9]\d)\.[1-9]\d*\b`)
	ofEtcd       = regexp.MustCompile(`\bv(3\.\d+)\.\d+\b`)
	// rowOfEtcd is one of what tripod status and tripod etcd status print.
	rowOfEtcd = regexp.MustCompile(`(?m)^( *[a-z]\S* .*https://\S+ +)3\.\d+\.\d+\b`)
)

// sentence is one that must be on a page. Each group in parentheses gets the fact of the same position.
type sentence struct {
	page    string
	pattern *regexp.Regexp
	of      func(*facts) []string
}

func minorIn(page, pattern string) sentence {
	return sentence{page, regexp.MustCompile(pattern), func(f *facts) []string { return []string{f.minor} }}
}

var sentences = []sentence{
	minorIn("README.md", `Tripod is kube-apiserver (1\.\d+):`),
	minorIn("docs/parity.md", `# Differences to kube-apiserver (1\.\d+)\n`),
	minorIn("docs/drop-in.md", `takes the flags of kube-apiserver (1\.\d+),`),
	minorIn("docs/migrate.md", `stores what kube-apiserver (1\.\d+) stores`),
	minorIn("docs/kubeadm.md", `than Tripod's \(Kubernetes (1\.\d+)\)`),
	minorIn("docs/flags.md", `each flag of kube-apiserver (1\.\d+)\.`),
	minorIn("docs/search-reference.md", `\n\| kube-apiserver (1\.\d+) \| Each run of the tests`),
	{
		"README.md", regexp.MustCompile(`(\d+) of Kubernetes' (\d+) \[conformance specs\]`),
		func(f *facts) []string { return []string{f.passed, f.specs} },
	},
	{
		"docs/parity.md", regexp.MustCompile(`\| (\d+) of (\d+), also as static pods; (\d+) while`),
		func(f *facts) []string { return []string{f.passed, f.specs, f.rolling} },
	},
}

// apply returns a page with the facts in it.
func (f *facts) apply(page, text string) (string, error) {
	for _, version := range []*regexp.Regexp{ofKubernetes, ofEtcd} {
		text = version.ReplaceAllStringFunc(text, func(found string) string {
			if patch := f.patches[version.FindStringSubmatch(found)[1]]; patch != "" { // a v before it stays
				return found[:strings.Index(found, version.FindStringSubmatch(found)[1])] + patch
			}
			return found
		})
	}
	text = rowOfEtcd.ReplaceAllString(text, "${1}"+f.etcds[len(f.etcds)-1])
	for _, s := range slices.Concat(sentences, support) {
		if s.page != page {
			continue
		}
		at := s.pattern.FindStringSubmatchIndex(text)
		if at == nil {
			return "", fmt.Errorf("%s no longer says %q: change hack/doc-versions, too", page, s.pattern)
		}
		values := s.of(f)
		for i := len(values) - 1; i >= 0; i-- {
			begin, end := at[2+2*i], at[3+2*i]
			text = text[:begin] + values[i] + text[end:]
		}
	}
	return text, nil
}
