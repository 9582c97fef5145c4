// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// key stands for a token and the audiences that it is asked for.
type key [sha256.Size]byte

const (
	secretSize = 32
	// maxPooled bounds what a rare, huge token leaves behind.
	maxPooled = 16 << 10
)

// keyer makes keys. They are hashes with a secret of this process: neither what is in memory nor how the cache behaves
// reveals anything about tokens.
type keyer struct {
	secret [secretSize]byte
	// buffers are *[]byte.
	buffers sync.Pool
}

func newKeyer() *keyer {
	k := &keyer{}
	_, _ = rand.Read(k.secret[:]) // never fails
	k.buffers.New = func() any { return new([]byte) }
	return k
}

// key returns the key of a token. Every part has its length in front, so that no two questions are hashed alike.
func (k *keyer) key(token string, audiences []string) key {
	buffer := k.buffers.Get().(*[]byte)
	b := append((*buffer)[:0], k.secret[:]...)
	b = appendPart(b, token)
	for _, audience := range audiences {
		b = appendPart(b, audience)
	}
	sum := sha256.Sum256(b)
	clear(b) // of the token
	if cap(b) <= maxPooled {
		*buffer = b
		k.buffers.Put(buffer)
	}
	return sum
}

func appendPart(b []byte, part string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
	return append(b, part...)
}
