// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

// Pair is what a Storage keeps under one name, each part in PEM. Missing parts are nil.
type Pair struct {
	// Certificate belongs to Key.
	Certificate []byte
	// Key is private.
	Key []byte
	// Trusted are the certificates of the authorities to trust. For an authority, its own comes first, followed by another one
	// during a rotation. For what an authority issued, they are those of the authority.
	Trusted []byte
	// Public is the public part of Key, if Key signs tokens.
	Public []byte
}

// Names name for people where a pair is stored.
type Names struct {
	Certificate, Key string
	// All are what to remove so that the pair is made again.
	All string
}

// Storage keeps pairs.
type Storage interface {
	// Read returns the pair of a name. It may be empty.
	Read(name string) (Pair, error)
	// Write replaces the pair of a name. A storage need not keep parts that follow from others.
	Write(name string, pair Pair) error
	// Remove removes the pair of a name.
	Remove(name string) error
	// Names returns where the pair of a name is stored.
	Names(name string) Names
}
