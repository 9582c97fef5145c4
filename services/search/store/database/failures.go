// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"slices"
)

// IsRefusal reports whether an error is about the values of a statement, such as one that is too long, so that others could be written.
func IsRefusal(err error) bool {
	return slices.ContainsFunc(dialects, func(d Dialect) bool { return d.isRefusal(err) })
}

// MayBeRefusal reports whether a database says by an error that it cannot do something, other than that it lacks memory, disk, connections
// or turns. This may be about values: then it does the same without them.
func MayBeRefusal(err error) bool {
	return slices.ContainsFunc(dialects, func(d Dialect) bool { return d.mayBeRefusal(err) })
}
