// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditfile

import (
	"encoding/binary"
	"fmt"
	"io"
)

// maxFrame is the largest frame, in bytes. An object is smaller than etcd's limit of some MiB, and an event has two.
const maxFrame = 64 << 20

// Send writes the length and the data at once.
func Send(w io.Writer, data []byte) error {
	if len(data) > maxFrame {
		return fmt.Errorf("an audit event of %d bytes is too long", len(data))
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data)))
	_, err := w.Write(append(frame, data...))
	return err
}

// Receive reads what Send wrote.
func Receive(r io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > maxFrame {
		return nil, fmt.Errorf("an audit event of %d bytes is too long", length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("half of an audit event: %w", err)
	}
	return data, nil
}
