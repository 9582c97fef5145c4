// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/base/hop/replicas"
)

// line is what a server says about one of its checks, as in "[+]ping ok".
type line struct {
	name string
	fine bool
	// text is the whole line.
	text string
	// exclusion is what it was excluded by: its own name or that of its group. Empty when it was not.
	exclusion string
}

// parse reads what a server answers to ?verbose.
func parse(answer string) []line {
	var lines []line
	for _, check := range replicas.ParseChecks(answer) {
		l := line{name: check.Name, fine: check.Passes, text: check.String()}
		if with, ok := strings.CutPrefix(check.Outcome, "excluded with "); ok {
			l.exclusion = strings.TrimSuffix(with, ": ok")
		} else if check.Outcome == "excluded: ok" {
			l.exclusion = check.Name
		}
		lines = append(lines, l)
	}
	return lines
}

// list is the checks of all servers: each name once.
type list struct {
	lines []line
	// excluded is what the client wants to be excluded, and unknown what of it was not found.
	excluded, unknown sets.Set[string]
}

func newList(excluded []string) *list {
	return &list{excluded: sets.New(excluded...), unknown: sets.New(excluded...)}
}

func (l *list) add(one line) {
	l.unknown.Delete(one.exclusion)
	l.lines = append(l.lines, one)
}

func (l *list) addOwn(lines []line) {
	for _, one := range lines {
		l.add(one)
	}
}

// exclude marks a check as excluded if the client wants it to be, by its name or the name of its group.
func (l *list) exclude(one line) line {
	group := groupOf(one.name)
	switch {
	case l.excluded.Has(one.name):
		one.fine, one.text, one.exclusion = true, "[+]"+one.name+" excluded: ok", one.name
	case l.excluded.Has(group):
		one.fine, one.text, one.exclusion = true, "[+]"+one.name+" excluded with "+group+": ok", group
	}
	return one
}

// groupOf returns the group of a check, or "". kube-apiserver has groups for the checks of the etcds in --etcd-servers-overrides only.
func groupOf(check string) string {
	switch {
	case strings.HasPrefix(check, "etcd-override-readiness-"):
		return "etcd-readiness"
	case strings.HasPrefix(check, "etcd-override-"):
		return "etcd"
	}
	return ""
}

// addBackend adds the checks of a backend. If others have a check of the same name, it passes if it passes everywhere.
func (l *list) addBackend(backend string, lines []line) {
	for _, one := range lines {
		if !one.fine {
			one.text = fmt.Sprintf("[-]%s failed in %s: reason withheld, ignored", one.name, backend)
		}
		one = l.exclude(one)
		known := slices.IndexFunc(l.lines, func(k line) bool { return k.name == one.name })
		switch {
		case known < 0:
			l.add(one)
		case !one.fine && l.lines[known].fine && !slices.Contains(alone, one.name):
			l.lines[known] = one
		}
	}
}

// addNote adds a check that does not count.
func (l *list) addNote(name string, err error) {
	one := line{name: name, fine: err == nil, text: "[+]" + name + " ok"}
	if err != nil {
		one.text = "[-]" + name + " failed: reason withheld, ignored"
	}
	l.add(l.exclude(one))
}

// String returns the list as servers give it.
func (l *list) String() string {
	var b strings.Builder
	for _, one := range l.lines {
		b.WriteString(one.text + "\n")
	}
	if l.unknown.Len() > 0 {
		var quoted []string
		for _, name := range sets.List(l.unknown) {
			quoted = append(quoted, fmt.Sprintf("%q", name))
		}
		fmt.Fprintf(&b, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(quoted, ","))
	}
	return b.String()
}
