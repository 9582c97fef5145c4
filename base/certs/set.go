// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

// Set is an authority and certificates that it issues. It can be written as JSON.
type Set struct {
	// Authority is the name of the authority, and CommonName the name in its certificate.
	Authority, CommonName string
	Leaves                []NamedLeaf
}

// NamedLeaf is a certificate of a name.
type NamedLeaf struct {
	Name string
	Leaf
}

// Ensure makes or renews what is missing or expires soon.
func (s *Set) Ensure(store *Store) error {
	ca, err := store.Authority(s.Authority, s.CommonName)
	if err != nil {
		return err
	}
	for _, leaf := range s.Leaves {
		if _, err := ca.Ensure(leaf.Name, leaf.Leaf); err != nil {
			return err
		}
	}
	return nil
}
