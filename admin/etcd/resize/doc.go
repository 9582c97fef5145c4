// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resize changes the number of members of the etcds of a Helm release, one member at a time, while clients go on.
//
//	grow    learner in etcd -> record -> pod -> promotion, for each new member; then services get the new members
//	shrink  services lose the members that go; then leadership -> removal from etcd -> record, for each of them; then their pods and volumes
//
// Each step first looks at what etcd and the cluster have. So the same command continues where an earlier one stopped, and one with another
// number turns back. A Lease keeps two commands apart.
//
// The StatefulSet names its number of members in its selector, which cannot change. So nothing that renders the chart with another number
// can start or stop members. This package makes the StatefulSet anew beside its pods: before new members start, and after old ones go. The
// record keeps the StatefulSet meanwhile.
// Pods find the initial members in a ConfigMap, the record, and not in their template. So no pod restarts because of that.
package resize
