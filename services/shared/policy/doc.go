// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides what users may do, in services that are not core, as kube-apiserver decides it: by the
// authorizers of Kubernetes, chosen by kube-apiserver's flags, over RBAC objects that are watched in core.
//
// So no request waits for core before it is allowed, a change in core is in force as soon as its watch event has come, and
// the last policy stays in force while core is away. Until all RBAC objects were received once, most requests cannot be
// decided: Policy.Gate answers them with 503, and never with 403.
//
// # Mode Node
//
// kube-apiserver's Node mode allows kubelets what a fixed list of rules allows (services, runtime classes, ...) and what
// their pods refer to (secrets, volumes, ...), which it finds in a graph of nearly all pods, volumes and attachments. All of
// that is in core, where the graph is. A service here takes the mode, whether by flag or in the file of
// --authorization-config, so that all services can be given the same, but the informers that would fill the graph are
// replaced by ones that do nothing: a service neither may nor should watch pods. What remains has no opinion on users that
// are not nodes, and allows nodes the fixed rules, in which no custom resource is. With Node as the only mode all users
// that are not nodes are refused, as by kube-apiserver.
//
// Only the CEL variable "authorizer", in admission of custom resources or APIServices, can ask for what the graph has, such as
// whether a node may read a certain secret. Core is asked that, by a SubjectAccessReview. While core is away the answer is no,
// with an error.
package policy
