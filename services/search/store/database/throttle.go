// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
)

// Throttle runs a transaction when the limits of its writer admit it, and counts the rows that it has changed.
type Throttle func(ctx context.Context, transaction func() (rows int, err error)) error

// Throttled returns the database with a throttle for work that takes several transactions: the end of a list, and streams that begin or go.
// Other writers can write between two of them. So one cluster with many objects does not keep the others from writing.
func (d *DB) Throttled(throttle Throttle) *DB {
	limited := *d
	limited.throttle = throttle
	return &limited
}

// WithinThrottled runs a transaction of such work.
func (d *DB) WithinThrottled(ctx context.Context, do func(t *Tx) (rows int, err error)) error {
	run := func() (rows int, err error) {
		err = d.Within(ctx, func(t *Tx) error {
			rows, err = do(t)
			return err
		})
		return rows, err
	}
	if d.throttle != nil {
		return d.throttle(ctx, run)
	}
	_, err := run()
	return err
}
