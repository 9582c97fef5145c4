// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity serves tripod.identity.v1: it tells aggregators whom a token belongs to, and when that ends.
//
// kube-apiserver's own authenticators check a token. They know the objects that it depends on (service account, secret, pod, node) from
// informers, and the same informers report changes of these objects as invalidations with sequence numbers.
//
// An answer and an invalidation may cross on the wire. An informer changes its store before it calls its handlers. So an answer that was
// computed from the old state carries a smaller sequence number than the invalidation of the change, and the aggregator knows that the
// answer is the older one.
//
// After authentication, the service looks up the token's dependencies in the same stores. If all are there, an invalidation with a greater
// number will report the end of each. If one is missing, because the informer is behind or the object is gone, the answer must not be
// cached.
package identity
