// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

// These methods are for a store that is a copy of a database. Only a Write and what Exclusively calls call them.

// Begin makes the store what the database was at a revision. A watch from before goes on if the changes that follow have the one that it
// was sent last, and otherwise ends with 410.
func (s *Store) Begin(revision int64, objects []Row) error {
	entries := make([]*entry, len(objects))
	for i, row := range objects {
		next, err := s.prepare(row.Key, row.Data)
		if err != nil {
			return err
		}
		next.revision = row.Revision
		if err := s.versioner.UpdateObject(next.object, uint64(row.Revision)); err != nil {
			return err
		}
		entries[i] = next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.Clear(false)
	s.size = 0
	for _, next := range entries {
		s.objects.ReplaceOrInsert(next)
		s.size += next.bytes()
	}
	s.history, s.historySize, s.base = nil, 0, s.objects.Clone()
	s.current, s.compacted = revision, revision
	if !s.closed {
		s.changed.Send()
	}
	return nil
}

// Row is a change in the database.
type Row struct {
	Revision int64
	Key      string
	// Data is the encoded object, or nil if the change deletes it.
	Data []byte
}

// Follow makes a change of the database, which is later than all before.
func (s *Store) Follow(row Row) error {
	var next *entry
	if row.Data != nil {
		var err error
		if next, err = s.prepare(row.Key, row.Data); err != nil {
			return err
		}
	}
	old, err := s.look(row.Key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old == nil && next == nil {
		s.skip(row.Revision)
	} else {
		s.apply(row.Revision, old, next)
	}
	s.trim(1)
	if !s.closed {
		s.changed.Send()
	}
	return nil
}

// Revision returns the revision of an object, or 0 if it does not exist.
func (s *Store) Revision(key string) int64 {
	if found, err := s.look(key); err == nil && found != nil {
		return found.revision
	}
	return 0
}

// Current is the latest revision.
func (s *Store) Current() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Forget drops the changes up to a revision.
func (s *Store) Forget(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.after(revision))
}
