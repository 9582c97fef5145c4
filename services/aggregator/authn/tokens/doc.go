// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tokens asks core whose a bearer token is, and remembers the answers.
//
// A Client follows one replica of core at a time: it watches the replica's invalidations and asks it about tokens, on
// one connection (follower). An answer is used again (cache) until it has served its time, something that it depends on
// changes or ends, or another stream of invalidations is followed. So the aggregator is never staler than the replica
// that it follows, by more than a message takes on its way, or maxSilence when none comes any more.
//
// While no replica is followed, answers that are in the cache are used for a period of grace; other tokens are
// unknown (UnavailableError).
//
// A request that asks core is given the answer, whatever has been seen in the meantime: core looked at the token while
// the request waited, and it was good. kube-apiserver, too, lets a request pass if the token ends or is revoked right after it
// was checked, and the two moments look the same from outside. But no request that begins afterwards is given that
// answer: it is not kept, and others that wait for the same question use its answer only by the rules of the cache
// (Client.coalesce).
package tokens
