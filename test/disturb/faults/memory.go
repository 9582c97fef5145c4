// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// hitWithin is how long a process may live with too little memory.
const hitWithin = 30 * time.Second

// memories are faults where a process may not use more memory than it has now, while users write large objects.
func memories() []fault {
	limit := func(name, replica string, sides []string) fault {
		return fault{
			name: "memory limit of " + name, group: "memory", sides: sides, needs: limits, coresAway: cores(replica),
			begin: func(ctx context.Context, c *cluster) error {
				if err := c.hostsOf([]string{replica})[0].limitToUse(); err != nil {
					return err
				}
				return c.writeUntilItEnds(ctx, c.resolve([]string{replica})[0])
			},
			end: func(_ context.Context, c *cluster) error {
				return c.hostsOf([]string{replica})[0].limitMemory(0)
			},
		}
	}
	const like = "memory limit of one aggregator"
	all := []fault{
		limit("one aggregator", "front-0", bothOrSingle), limit("one core", "core-0", oursOrSingle).comparedWith(like),
		limit("one extensions", "extensions-0", oursOrSingle).comparedWith(like), limit("etcd", etcd, bothOrSingle),
	}
	// A process that the kernel ends is back within seconds, for the rules within minutes.
	return expecting(expectation{may: slices.Concat(etcdAway.must, etcdAway.may)}, all)
}

// limitToUse limits the host to the memory that it uses.
func (h *host) limitToUse() error {
	uses, err := h.usesMemory()
	// The kernel rejects a limit below what it cannot reclaim.
	for more := int64(0); err == nil && more <= 16<<20; more += 1 << 20 {
		if err := h.limitMemory(uses + more); err == nil {
			return nil
		}
	}
	return errors.Join(err, errors.New("the kernel refuses all limits"))
}

// writeUntilItEnds has users write large objects until the kernel kills a process.
func (c *cluster) writeUntilItEnds(ctx context.Context, name string) error {
	process := c.process(name)
	ctx, cancel := context.WithTimeout(ctx, hitWithin)
	writing := c.useLarge(ctx)
	defer writing.Wait()
	defer cancel()
	select {
	case <-process.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not hit its limit of memory", name)
	}
}
