// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

// Pair is what is kept under one name, each part in PEM. Parts that are not there are nil.
type Pair struct {
	// Certificate belongs to Key.
	Certificate []byte
	// Key is private.
	Key []byte
	// Trusted are the certificates of the authorities that are to be trusted: with an authority, its own first, and while it is
	// rotated another one after it; with what an authority issued, those of the authority.
	Trusted []byte
	// Public is the public part of Key, of keys that sign tokens.
	Public []byte
}

// Names say to people where a pair is.
type Names struct {
	Certificate, Key string
	// All are the things to remove to have the pair made anew.
	All string
}

// Storage keeps pairs.
type Storage interface {
	// Read returns what is kept under name, which may be nothing.
	Read(name string) (Pair, error)
	// Write replaces what is kept under name. A storage need not keep what follows from other parts.
	Write(name string, pair Pair) error
	// Remove removes what is kept under name.
	Remove(name string) error
	// Names says where that is.
	Names(name string) Names
}
