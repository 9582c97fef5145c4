// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package definitions limits the CustomResourceDefinitions that a replica follows to those of its partition.
//
// The server of k8s.io/apiextensions-apiserver builds schemas, discovery, OpenAPI and storages for each definition that its informer has,
// and runs its controllers for these. So a replica whose informer has only the definitions of its partition does the work for its
// partition, and no other. CustomResourceDefinitions have no field that selects by group. But the name of each is PLURAL.GROUP, and a
// plural has no dot.
//
//   - The default partition serves all definitions to clients, so its watch cache has all of them. Its own informer gets those of its
//     groups ([Narrow] and [Client]).
//   - Another partition reads its definitions from etcd. It asks for the keys of all definitions, and then for the values of its own. Of
//     the changes that etcd reports, it decodes and keeps only those of its own ([Own]). So it neither needs the default partition to
//     start, nor has any memory for the definitions of others.
//
// The default partition alone writes definitions to etcd. Controllers of another partition change the status of their definitions by way of
// the aggregator ([Client]), and the default partition refuses those of others ([RefuseOtherStatus]).
package definitions
