// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-search serves the objects of many clusters, asked with kubectl.
//
// # What it owns
//
// Search owns the API group clusterpedia.io. It copies the objects of clusters, its members, into a database, and answers searches from
// there. It needs no etcd. The cluster that it is part of is a member, too.
//
// # From flags to a server
//
// All services start in the same way (base/service/lifecycle.go). Search is an API service of the SDK (apiservice), which has most of
// the steps. In the order in which a replica runs them:
//
//   - options/options.go has the flags. Validate finds what is wrong with them.
//   - server/service.go describes search to the SDK: its API group, its storages, its check of readiness, and its hook.
//   - server/server.go prepares the parts: the database, which need not answer yet, the rights of readers, the handler, the copier.
//   - server/nested.go puts the handler and the authorizer of search into the handler chain.
//   - The hook of server/server.go runs beside the requests: it gives the database its schema, and copies clusters.
//   - When the hook has ended, server/server.go closes the database, after all that still reads it.
//
// # The way of an object
//
//   - pediaclusters/controller.go follows PediaClusters, and writes their states. The cluster itself needs none.
//   - member/member.go asks a member which resources it has, and starts a stream for each.
//   - member/stream.go lists and watches, and collects batches.
//   - store/write.go commits a batch with the resourceVersion of the stream.
//
// # The way of a search
//
//   - server/nested.go reads the path: the request inside of the request, and what it asks for.
//   - server/authorizer.go decides: by the policy of the hub, and if that has no opinion, by the RBAC of each cluster (rights).
//   - query reads the parameters.
//   - store/search.go makes SQL of them, with store/database.
//   - server/list.go writes the answer: the objects as they are, a table (tables), or metadata.
//
// # The way of a change to a watch
//
//   - store/history records it in the transaction that writes the object.
//   - watchcache reads what is new, once for all watches.
//   - query/match.go decides whether a watch asks for the object.
//   - server/watch.go serves the watch.
//
// # What to read first
//
// Read store/doc.go, and then server/handler.go.
package main
