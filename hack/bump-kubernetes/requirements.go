// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

const (
	etcd = "go.etcd.io/etcd/"
	// etcdServer is the module whose version also applies to modules of etcd that Kubernetes does not require.
	etcdServer = etcd + "server/v3"
)

// requirements are versions by module path.
type requirements map[string]string

func readRequirements(path string) (requirements, error) {
	text, err := output("go", "mod", "edit", "-json", path)
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		return nil, err
	}
	result := requirements{}
	for _, r := range mod.Require {
		result[r.Path] = r.Version
	}
	return result, nil
}

// takeNewestEtcd replaces the version of etcd by its newest patch release. Kubernetes stays with one that may lack fixes.
func (r requirements) takeNewestEtcd() error {
	text, err := output("go", "list", "-m", "-versions", etcdServer)
	if err != nil {
		return err
	}
	old := r[etcdServer]
	for path, version := range r {
		if strings.HasPrefix(path, etcd) && version == old {
			r[path] = newestPatch(strings.Fields(text), old)
		}
	}
	return nil
}

// newestPatch returns the newest release of the minor version of a version.
func newestPatch(versions []string, of string) string {
	for _, version := range versions {
		if semver.Prerelease(version) == "" && semver.MajorMinor(version) == semver.MajorMinor(of) {
			of = newest(of, version)
		}
	}
	return of
}

// requireEdits returns the arguments of `go mod edit` that make one of our modules require what belongs to a version of Kubernetes: its
// version of etcd unless ours is newer, and its staging modules if the line had their version before. (Replace lines decide about these,
// but a require line with an old version would mislead.)
func requireEdits(ours, theirs requirements, old, version string) []string {
	var edits []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		want := ours[path]
		switch {
		case path == kubernetes:
			want = version
		case strings.HasPrefix(path, "k8s.io/") && want == staging(old):
			want = staging(version)
		case strings.HasPrefix(path, etcd):
			want = newest(want, cmp.Or(theirs[path], theirs[etcdServer]))
		}
		if want != ours[path] {
			edits = append(edits, "-require="+path+"@"+want)
		}
	}
	return edits
}

// newest returns the later of two versions. Kubernetes stays with a minor version of its dependencies for long, and does not take each
// fix of a vulnerability; so a version of ours that is newer stays.
func newest(ours, theirs string) string {
	if semver.Compare(theirs, ours) > 0 {
		return theirs
	}
	return ours
}

// replaced is the version that Kubernetes requires of the modules that it publishes from its own repository, where it replaces them.
const replaced = "v0.0.0"

// ahead lists the modules of which ours is newer than that of Kubernetes.
func ahead(ours, theirs requirements) []string {
	var modules []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		if version := theirs[path]; version != "" && version != replaced && semver.Compare(ours[path], version) > 0 {
			modules = append(modules, fmt.Sprintf("%s %s (Kubernetes: %s)", path, ours[path], version))
		}
	}
	return modules
}
