// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement finds the etcd that has the custom resources of an API group, and keeps writes from any other.
//
// All groups are in the shared etcd, which has the CustomResourceDefinitions, unless a group has an etcd of its own. A [Record] in the
// shared etcd names the etcd of a group, and the group's own etcd must consent. `tripod migrate groups` changes both while replicas serve.
//
//   - Each write of an object is a transaction that also makes sure that the fence of its group has not changed since the replica read it
//     ([Keys.Unchanged]). So etcd itself refuses the writes of a replica with an old state, however long that was frozen or cut off.
//   - A move pauses writes by a key in the fence, which has a lease. If the move dies, etcd removes the key, and writes go on.
//   - A replica follows the record. When the objects have moved, it ends the watches of the group, and uses the other etcd
//     ([Groups.Decorate]). Watches from before the move list again, because the other etcd has no history of it.
//   - A group without objects and without a record goes to its own etcd, if it has one, when it is first used.
//   - A claim or a move that has died after the switch is ended by the next replica that looks.
//   - If the shared etcd is none, as with kine, groups stay there, and nothing fences writes ([Groups.Check]).
//   - If a group cannot be found, for example because its etcd is away, requests for this group get 503.
package placement
