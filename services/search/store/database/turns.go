// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
)

// Turn runs a transaction when it may, and counts how many rows it has changed.
type Turn func(ctx context.Context, transaction func() (rows int, err error)) error

// InTurns returns the database with turns for work that takes several transactions: the end of a list, and streams that begin or go. Other
// writers have their turn between two of them. So one cluster with many objects does not keep the others from writing.
func (d *DB) InTurns(turn Turn) *DB {
	limited := *d
	limited.turn = turn
	return &limited
}

// InTurn runs a transaction of such work.
func (d *DB) InTurn(ctx context.Context, do func(t *Tx) (rows int, err error)) error {
	run := func() (rows int, err error) {
		err = d.Within(ctx, func(t *Tx) error {
			rows, err = do(t)
			return err
		})
		return rows, err
	}
	if d.turn != nil {
		return d.turn(ctx, run)
	}
	_, err := run()
	return err
}
