// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"regexp"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// normaliser removes what differs between any two clusters.
var normaliser = both.Normaliser{
	Volatile: []both.Volatile{
		{Pattern: regexp.MustCompile(`\b(gen|settle)-[a-z0-9]{5}\b`), With: "$1-RANDOM"},
		{Pattern: regexp.MustCompile(`/(stock|tripod)/`), With: "/SIDE/"},
	},
	Fields: map[string]string{"resourceVersion": "RESOURCE-VERSION"},
	Sets:   []string{"managedFields"}, // they are sorted by the second in which they were written
}
