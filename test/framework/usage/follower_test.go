// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apimachinery/pkg/watch"
)

func TestAWatchThatLacksAnEventIsAFault(t *testing.T) {
	for name, test := range map[string]struct {
		events  string
		deleted bool
		fault   string
	}{
		"all of an object":      {events: "ADDED MODIFIED DELETED", deleted: true},
		"an object that stays":  {events: "ADDED"},
		"no creation":           {events: "MODIFIED DELETED", deleted: true, fault: "of a it has seen [MODIFIED DELETED]"},
		"two creations":         {events: "ADDED ADDED DELETED", deleted: true, fault: "of a it has seen [ADDED ADDED DELETED]"},
		"a change of the ended": {events: "ADDED DELETED MODIFIED", deleted: true, fault: "of a it has seen [ADDED DELETED MODIFIED]"},
		"no deletion":           {events: "ADDED MODIFIED", deleted: true, fault: "it has not seen the end of 1 objects, such as a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{seen: map[string][]watch.EventType{}}
			for event := range strings.FieldsSeq(test.events) {
				f.seen["a"] = append(f.seen["a"], watch.EventType(event))
			}
			if test.deleted && !strings.Contains(test.events, "DELETED") {
				f.expect("a")
			}
			faults := f.faults()
			if test.fault == "" {
				assert.Empty(t, faults)
			} else if assert.Len(t, faults, 1) {
				assert.EqualError(t, faults[0], test.fault)
			}
		})
	}
}
