// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"sync/atomic"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
)

// noise returns n bytes that look like no others, the same for each seed.
func noise(seed string, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(seed))), n)
}

// digest takes data, and has its size and its hash.
type digest struct {
	hash  hash.Hash
	count atomic.Int64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) Write(p []byte) (int, error) {
	d.count.Add(int64(len(p)))
	return d.hash.Write(p)
}

// String describes the data. Nothing may be written meanwhile.
func (d *digest) String() string {
	return fmt.Sprintf("%d bytes, SHA-256 %x", d.count.Load(), d.hash.Sum(nil))
}

// digestOf describes all that a reader has.
func digestOf(r io.Reader) string {
	d := newDigest()
	if _, err := io.Copy(d, r); err != nil {
		return fmt.Sprintf("%s, then %v", d, err)
	}
	return d.String()
}

// size returns how much a reader has.
func size(r io.Reader) int64 {
	n, _ := io.Copy(io.Discard, r) // it does not fail
	return n
}

// counted counts what was read.
type counted struct {
	io.Reader
	count *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.count.Add(int64(n))
	return n, err
}

// endless never stops to be read.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// gate is a writer that takes nothing until it is opened.
type gate struct {
	io.Writer
	open chan struct{}
}

func (g gate) Write(p []byte) (int, error) {
	<-g.open
	return g.Writer.Write(p)
}
