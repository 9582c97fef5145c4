// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"io/fs"
)

// openGate has the store keep its gate in a file.
func (d *directory) openGate() error {
	move, err := d.root.ReadFile(gateFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read whether a move of objects has closed the storage: %w", err)
	}
	d.store.KeepGateBy(d.keepGate, string(move))
	return nil
}

// keepGate is a [revisions.KeepGate].
func (d *directory) keepGate(move string) error {
	if move == "" {
		if err := d.root.Remove(gateFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return d.syncFolder(".")
	}
	const temporary = unfinished + "gate"
	if err := d.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.fill(temporary, []byte(move), 0o600); err != nil {
		return err
	}
	if err := d.root.Rename(temporary, gateFile); err != nil {
		return err
	}
	return d.syncFolder(".")
}
