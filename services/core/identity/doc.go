// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity tells aggregators whose tokens are good, and when they are not any more: tripod.identity.v1.
//
// A token is looked at by the authenticators of kube-apiserver, which know the objects that it depends on from informers.
// The same informers tell of changes. An informer changes its store before it calls its handlers, so whoever still finds
// the state before a change read the sequence number before that of the change's invalidation. That is how a caller knows,
// of an answer and an invalidation that cross, that the answer is the older one.
//
// What a good token depends on is looked for in the same stores, and after that. An object that is there then will not end
// without an invalidation that is greater than that number. An answer whose object is not there, because the informer does
// not know it yet or not any more, is not to be used again.
package identity
