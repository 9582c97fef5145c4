// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisions keeps objects in memory, in each of their latest revisions. It implements storage.Interface with the rules that clients
// of etcd's storage rely on: one resourceVersion orders all changes, lists are of one revision, watches lose and double nothing.
//
// Objects are in a tree that is copied on write, and each change keeps the tree that it made. So a list of an earlier revision, such as
// the next page of a list, reads that tree. A watch has no buffer: it reads the change after the last one that it has sent. If the store
// forgets what the watch goes on from, because its client is too slow, the watch ends with 410. Until the client takes that, it keeps no
// object.
//
// A revision is the time in nanoseconds, or a bit later than the one before. So a storage that begins anew, without its history, begins
// after all revisions that it has given out. The steps are random, and a store knows which revisions are its own. A client that comes from
// a replica with another history, and asks for a revision of that, gets 410 and lists again.
package revisions
