// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/rights"
)

const (
	// rememberedFor is how long a change of the hub's policy about clusters may take to be in force in searches.
	rememberedFor = time.Second
	// maxRemembered bounds the decisions that are remembered.
	maxRemembered = 4096
)

// remembered keeps the decisions of an authorizer about clusters for a moment. Behind Tripod, each one is a SubjectAccessReview, and a
// reader without a grant needs two for each search. Errors are not kept, and neither are decisions about anything else, or about a part
// that selectors name.
type remembered struct {
	next      authorizer.Authorizer
	decisions *cache.LRUExpireCache
}

func remember(next authorizer.Authorizer, clock cache.Clock) remembered {
	return remembered{next, cache.NewLRUExpireCacheWithClock(maxRemembered, clock)}
}

// question is what a decision about clusters goes by: all attributes that an authorizer may look at.
type question struct {
	reader                                    [sha256.Size]byte
	verb, version, subresource, name, request string
}

// selects reports whether attributes have a selector, or one that cannot be read.
func selects(a authorizer.Attributes) bool {
	fields, wrongFields := a.GetFieldSelector()
	labels, wrongLabels := a.GetLabelSelector()
	return len(fields) > 0 || len(labels) > 0 || wrongFields != nil || wrongLabels != nil
}

type decided struct {
	decision authorizer.Decision
	reason   string
}

// Authorize implements authorizer.Authorizer.
func (r remembered) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() || a.GetAPIGroup() != v1beta1.GroupVersion.Group || a.GetResource() != rights.Resource ||
		a.GetNamespace() != "" || selects(a) {
		return r.next.Authorize(ctx, a)
	}
	asked := question{sha256.Sum256([]byte(rights.ReaderKey(a.GetUser()))), a.GetVerb(), a.GetAPIVersion(), a.GetSubresource(), a.GetName(),
		a.GetPath()}
	if known, ok := r.decisions.Get(asked); ok {
		return known.(decided).decision, known.(decided).reason, nil
	}
	decision, reason, err := r.next.Authorize(ctx, a)
	if err == nil {
		r.decisions.Add(asked, decided{decision, reason}, rememberedFor)
	}
	return decision, reason, err
}
