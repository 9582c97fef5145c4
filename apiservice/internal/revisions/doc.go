// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revisions keeps objects in memory, in each of their latest revisions. It implements storage.Interface with the rules that clients
// of etcd's storage rely on: one resourceVersion orders all changes, lists are of one revision, watches lose and double nothing.
//
// Objects are in a tree that is copied on write, and each change keeps the tree that it made. So a list of an earlier revision, such as the
// next page of a list, reads that tree. A watch has no buffer: it reads the changes after the last one that it has sent. If these are
// forgotten because its client is too slow, it ends with 410.
//
// The first revision is the time in microseconds. So a storage that begins anew, without its history, begins after all revisions that it
// has given out, and a client that asks for these gets 410 and lists again.
package revisions
