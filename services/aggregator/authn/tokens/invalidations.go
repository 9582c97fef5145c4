// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

// maxInvalidations is how many invalidations are remembered. An answer that comes so late that more have come since it
// was made is not kept.
const maxInvalidations = 4096

// invalidation says that answers that depend on something, and were made before it, hold no longer.
type invalidation struct {
	sequence  uint64
	dependent dependency
}

// invalidations are the last ones of a stream.
type invalidations struct {
	// recent is a ring once it is full. oldest is then the next to be forgotten.
	recent []invalidation
	oldest int
	// latest is the last sequence of what is in recent.
	latest map[dependency]uint64
	// forgotten is the last sequence that is not in recent.
	forgotten uint64
}

// startAfter forgets everything: what was before sequence is not known.
func (i *invalidations) startAfter(sequence uint64) {
	*i = invalidations{latest: map[dependency]uint64{}, forgotten: sequence}
}

// add remembers one whose sequence is greater than all before.
func (i *invalidations) add(sequence uint64, d dependency) {
	added := invalidation{sequence: sequence, dependent: d}
	i.latest[d] = sequence
	if len(i.recent) < maxInvalidations {
		i.recent = append(i.recent, added)
		return
	}
	old := i.recent[i.oldest]
	i.forgotten = old.sequence
	if i.latest[old.dependent] == old.sequence {
		delete(i.latest, old.dependent)
	}
	i.recent[i.oldest] = added
	i.oldest = (i.oldest + 1) % maxInvalidations
}

// mayConcern reports whether one of the dependencies was, or may have been, invalidated after sequence.
func (i *invalidations) mayConcern(dependencies []dependency, sequence uint64) bool {
	if sequence < i.forgotten {
		return true
	}
	for _, d := range dependencies {
		if i.latest[d] > sequence {
			return true
		}
	}
	return false
}
