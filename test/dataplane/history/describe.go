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
	var asked, told string
	switch {
	case r.Verb == end:
		return "end"
	case r.Verb == List:
		return fmt.Sprintf("list -> %v at %d", r.Seen, r.Version)
	case r.Verb == Get:
		return fmt.Sprintf("get %d -> %v", r.Object, r.Seen[r.Object])
	case r.Verb == Create:
		asked = fmt.Sprintf("create %d = %d", r.Object, r.Value)
	case r.Verb == Update:
		asked = fmt.Sprintf("update %d@%d = %d", r.Object, r.Precondition, r.Value)
	default:
		asked = fmt.Sprintf("delete %d@%d", r.Object, r.Precondition)
	}
	if told = r.Outcome.String(); r.Version != 0 {
		told = fmt.Sprintf("@%d", r.Version)
	}
	return asked + " -> " + told
}

func (s state) String() string {
	shown := make([]string, 0, Size)
	for _, object := range s.objects {
		shown = append(shown, object.String())
	}
	return fmt.Sprintf("%s at %d", strings.Join(shown, ", "), s.version)
}
