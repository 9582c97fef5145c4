// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// inflated decompresses a document while it is read. A document has tens of megabytes, and many clients may read it slowly.
type inflated struct {
	compressed []byte
	offset     int64
	reader     *gzip.Reader
}

func newInflated(compressed []byte) *inflated { return &inflated{compressed: compressed} }

// size reads the last four bytes (RFC 1952, section 2.3.1). Documents are smaller than 4 GiB.
func (i *inflated) size() int64 {
	if len(i.compressed) < 4 {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(i.compressed[len(i.compressed)-4:]))
}

// Seek implements io.Seeker. It costs nothing before something is read.
func (i *inflated) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += i.offset
	case io.SeekEnd:
		offset += i.size()
	}
	if offset < 0 {
		return 0, errors.New("before the start")
	}
	i.offset, i.reader = offset, nil
	return offset, nil
}

// Read implements io.Reader.
func (i *inflated) Read(p []byte) (int, error) {
	if i.reader == nil {
		reader, err := gzip.NewReader(bytes.NewReader(i.compressed))
		if err != nil {
			return 0, fmt.Errorf("decompress document: %w", err)
		}
		if _, err := io.CopyN(io.Discard, reader, i.offset); err != nil {
			return 0, err
		}
		i.reader = reader
	}
	n, err := i.reader.Read(p)
	i.offset += int64(n)
	return n, err
}
