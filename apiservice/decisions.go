// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

const (
	// decisionsKept is how long a change of policy may take to be in force for decisions that are kept.
	decisionsKept = time.Second
	// maxDecisions bounds the decisions that are kept.
	maxDecisions = 4096
)

// decisions keeps the decisions of an authorizer that a service wants kept. It keeps no errors, and no decisions with conditions: the
// methods for those are the authorizer's own.
type decisions struct {
	authorizer.Authorizer
	keep  func(authorizer.Attributes) bool
	known *cache.LRUExpireCache
}

func newDecisions(next authorizer.Authorizer, keep func(authorizer.Attributes) bool, known *cache.LRUExpireCache) authorizer.Authorizer {
	if keep == nil {
		return next
	}
	return &decisions{next, keep, known}
}

// decided is a decision that is kept.
type decided struct {
	decision authorizer.Decision
	reason   string
}

// Authorize implements authorizer.Authorizer.
func (d *decisions) Authorize(ctx context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	if !d.keep(asked) {
		return d.Authorizer.Authorize(ctx, asked)
	}
	key := questionOf(asked)
	if known, ok := d.known.Get(key); ok {
		return known.(decided).decision, known.(decided).reason, nil
	}
	decision, reason, err := d.Authorizer.Authorize(ctx, asked)
	if err == nil {
		d.known.Add(key, decided{decision, reason}, decisionsKept)
	}
	return decision, reason, err
}

// questionOf returns a digest of everything that an authorizer may look at: the user, and what trust.Question has, such as selectors.
func questionOf(asked authorizer.Attributes) [sha256.Size]byte {
	var who user.Info = &user.DefaultInfo{}
	if u := asked.GetUser(); u != nil {
		who = u
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %q %q", who.GetName(), who.GetUID(), slices.Sorted(slices.Values(who.GetGroups())))
	for _, name := range slices.Sorted(maps.Keys(who.GetExtra())) {
		fmt.Fprintf(digest, " %q %q", name, who.GetExtra()[name])
	}
	digest.Write(trust.Question(asked)) // of one length
	return [sha256.Size]byte(digest.Sum(nil))
}
