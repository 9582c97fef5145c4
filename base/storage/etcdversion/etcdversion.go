// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdversion says which versions of etcd keep users to their ranges of keys, and which servers are not etcd.
package etcdversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// advisories are the vulnerabilities by which a user reaches keys of others: nested transactions, PrevKv and leases of puts in
// transactions, and watches that begin at a key of the user.
const advisories = "GHSA-rfx7-8w68-q57q, GHSA-x35m-3gp4-4fh5, GHSA-xg4h-6gfc-h4m8"

// firstFixed are the first versions of each minor version that have no such vulnerability. Later minor versions have none, earlier ones get
// no fixes.
var firstFixed = []*version.Version{
	version.MustParseSemantic("3.5.33"), version.MustParseSemantic("3.6.14"), version.MustParseSemantic("3.7.1"),
}

// CheckRanges returns an error if etcd in this version lets users reach keys outside of their ranges, or if it is no version.
func CheckRanges(text string) error {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return fmt.Errorf("etcd has version %q, which is none: %w", text, err)
	}
	want := firstFixed[0]
	for _, fixed := range firstFixed {
		if v.Major() == fixed.Major() && v.Minor() >= fixed.Minor() {
			want = fixed
		}
	}
	if v.LessThan(want) {
		return fmt.Errorf("etcd %s lets a user reach the keys of others (%s): upgrade it to %s or later", v, advisories, want)
	}
	return nil
}
