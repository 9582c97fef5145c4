// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func linked(version string, packages ...string) module {
	m := module{version, map[string]bool{}}
	for _, name := range packages {
		m.packages[name] = true
	}
	return m
}

// TestTheListFindsOldModules judges modules by the list of this repository.
func TestTheListFindsOldModules(t *testing.T) {
	var known list
	if err := readYAML("advisories.json", &known); err != nil {
		t.Fatal(err)
	}
	const server, net, grpc = "go.etcd.io/etcd/server/v3", "golang.org/x/net", "google.golang.org/grpc"
	for name, test := range map[string]struct {
		linked modules
		want   []string // advisories
	}{
		"etcd 3.6.8":  {modules{server: linked("v3.6.8", server+"/etcdserver", server+"/etcdserver/api/v3rpc")}, []string{"GO-2026-4806", "GO-2026-4808", "GO-2026-5736", "GO-2026-6114"}},
		"etcd 3.6.13": {modules{server: linked("v3.6.13", server+"/etcdserver", server+"/etcdserver/api/v3rpc")}, []string{"GO-2026-6114"}},
		"etcd 3.6.16": {modules{server: linked("v3.6.16", server+"/etcdserver", server+"/etcdserver/api/v3rpc")}, nil},
		"etcd 3.5.33": {modules{server: linked("v3.5.33", server+"/etcdserver", server+"/etcdserver/api/v3rpc")}, nil},
		"x/net 0.49":  {modules{net: linked("v0.49.0", net+"/http2")}, []string{"CVE-2026-33814"}},
		"x/net 0.49, of which nothing with a fault is linked": {modules{net: linked("v0.49.0", net+"/trace")}, nil},
		"x/net 0.61":  {modules{net: linked("v0.61.0", net+"/http2")}, nil},
		"grpc 1.79.3": {modules{grpc: linked("v1.79.3", grpc, grpc+"/internal/transport", grpc+"/xds")}, []string{"GO-2026-6061"}},
		"not covered": {modules{"example.com/new": linked("v1.0.0")}, []string{"does not cover example.com/new"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := judge(known, test.linked, nil, time.Now())
			if (err == nil) != (test.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.want {
				if i := slices.IndexFunc(known.Advisories, func(a advisory) bool { return slices.Contains(a.Aliases, want) }); i >= 0 {
					want = known.Advisories[i].ID
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s is missing: %v", want, err)
				}
			}
		})
	}
}

func TestAnExceptionEnds(t *testing.T) {
	a := advisory{ID: "GO-1", Summary: "a fault", Affected: []affected{{}}}
	a.Affected[0].Package.Name = "example.com/m"
	a.Affected[0].Ranges = []versions{{Events: []struct {
		Introduced string `json:"introduced,omitempty"`
		Fixed      string `json:"fixed,omitempty"`
	}{{Introduced: "0"}, {Fixed: "1.2.0"}, {Introduced: "1.3.0"}, {Fixed: "1.3.1"}}}}
	known := list{Modules: []string{"example.com/m"}, Advisories: []advisory{a}}
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		version    string
		exceptions []exception
		want       string
	}{
		"affected":              {"v1.1.0", nil, "example.com/m v1.1.0 has GO-1 (a fault): require v1.2.0 or later"},
		"affected again":        {"v1.3.0", nil, "require v1.3.1 or later"},
		"fixed":                 {"v1.2.0", nil, ""},
		"fixed for good":        {"v1.3.1", nil, ""},
		"on the last day":       {"v1.1.0", []exception{{"GO-1", "not reached", "2027-01-31"}}, ""},
		"after the last day":    {"v1.1.0", []exception{{"GO-1", "not reached", "2027-01-30"}}, "its exception ended on 2027-01-30"},
		"without a reason":      {"v1.1.0", []exception{{"GO-1", "", "2027-01-31"}}, "needs a reason"},
		"without an end":        {"v1.1.0", []exception{{"GO-1", "not reached", ""}}, "needs a reason, and a date"},
		"an exception too many": {"v1.2.0", []exception{{"GO-1", "not reached", "2027-01-31"}}, "remove the exception for GO-1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := judge(known, modules{"example.com/m": linked(test.version)}, test.exceptions, now)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheOldestVersionCounts(t *testing.T) {
	m := modules{}
	m.add("example.com/m/a", "example.com/m", "v1.10.0")
	m.add("example.com/m/b", "example.com/m", "v1.9.0")
	got := m["example.com/m"]
	if packages := slices.Sorted(maps.Keys(got.packages)); got.version != "v1.9.0" || len(packages) != 2 {
		t.Errorf("got %v", got)
	}
}
