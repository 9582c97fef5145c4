// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity serves tripod.identity.v1: aggregators ask it for the user of a token, and receive when that answer ends.
//
// kube-apiserver's own authenticators check a token. Informers give them the objects that the token depends on: service account, secret,
// pod, node. The same informers report changes of these objects, which the service sends as invalidations with sequence numbers.
//
// An answer and an invalidation may cross on the wire. An informer changes its store before it calls its handlers. So an answer from the
// old state carries a smaller sequence number than the invalidation of the change, so the aggregator sees that the answer is older.
//
// After authentication, the service looks up the token's dependencies in the same stores. If all are there, an invalidation with a greater
// number will report the end of each. If one is missing, because the informer is behind or the object is gone, the answer must not be
// cached.
package identity
