// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strings"
)

// String shows an object as value@version.
func (o Object) String() string {
	switch {
	case !o.exists():
		return "none"
	case o.Version == 0:
		return fmt.Sprintf("%d@?", o.Value)
	}
	return fmt.Sprintf("%d@%d", o.Value, o.Version)
}

// String shows a request and its answer in a line.
func (r Request) String() string {
	var asked string
	switch r.Verb {
	case end:
		return "end"
	case List:
		return fmt.Sprintf("list%s -> %v at %d", r.cache(), r.Seen, r.Version)
	case Get:
		return fmt.Sprintf("get %d%s -> %v", r.Object, r.cache(), r.Seen[r.Object])
	case Create:
		asked = fmt.Sprintf("create %d = %d", r.Object, r.Value)
	case Update:
		asked = fmt.Sprintf("update %d@%d = %d", r.Object, r.Precondition, r.Value)
	case Delete:
		asked = fmt.Sprintf("delete %d@%d", r.Object, r.Precondition)
	}
	result := r.Outcome.String()
	if r.Version != 0 {
		result += fmt.Sprintf(" @%d", r.Version)
	}
	return asked + " -> " + result
}

func (r Request) cache() string {
	if !r.Cached {
		return ""
	}
	return fmt.Sprintf(" from %d on", r.NotBefore)
}

func (s state) String() string {
	shown := make([]string, 0, Size)
	for _, object := range s.objects {
		shown = append(shown, object.String())
	}
	return fmt.Sprintf("%s at %d", strings.Join(shown, ", "), s.version)
}
