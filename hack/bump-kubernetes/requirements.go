// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
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

// requireEdits returns the arguments of `go mod edit` that make one of our modules require what belongs to a version of Kubernetes: its
// version of etcd, and its staging modules if the line had their version before. (Replace lines decide about these, but a require line with
// an old version would mislead.)
func requireEdits(ours, theirs requirements, old, version string) []string {
	var edits []string
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		want := ours[path]
		switch {
		case path == kubernetes:
			want = version
		case strings.HasPrefix(path, "k8s.io/") && want == staging(old):
			want = staging(version)
		case strings.HasPrefix(path, etcd) && theirs[path] != "":
			want = theirs[path]
		case strings.HasPrefix(path, etcd) && theirs[etcdServer] != "":
			want = theirs[etcdServer]
		}
		if want != ours[path] {
			edits = append(edits, "-require="+path+"@"+want)
		}
	}
	return edits
}
