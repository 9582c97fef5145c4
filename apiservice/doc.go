// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiservice builds API services: API servers of your own that serve API groups beside Kubernetes' own, behind Tripod's aggregator.
//
// You give the types and what is special about them: defaults, validation, conversion, admission. You get an API server that behaves as
// kube-apiserver does, with server-side apply, field validation, watches, pagination, OpenAPI, audit, priority and fairness, webhooks and
// admission policies. The command "tripod new api-service" writes a service to begin with, docs/extend.md is a tutorial, and
// examples/wardle is a service with two versions and an admission plugin.
//
// # Storage
//
// Objects are kept in etcd, or in the storage of their field Storage. The packages below apiservice/storages are such storages, and
// apiservice/storagetest tests one of your own. A Custom resource is kept where its author chooses: in a database, or in another API.
//
// A service with nothing in etcd demands no --etcd-servers, asks no etcd whether it is ready, and gives no effect to the flags about etcd
// by which `tripod up` starts every service. Have a ReadyCheck report whether a database answers, AddFlags take its address, and Close, or
// Destroy of a Custom storage, close it.
//
// # Behind Tripod
//
// A service that is given a certificate by Tripod's service CA (--service-cert-file) is a backend of Tripod. It sends the aggregators
// its resources and the state of each replica, so no client polls. The aggregator sends it the user of a request and the decision of the
// cluster's policy, so neither asks twice, and a change of policy is in force at once. Its APIServices are registered by themselves.
//
// # Behind kube-apiserver
//
// Without such a certificate the same binary is an aggregated API server as in Kubernetes' documentation. It asks kube-apiserver by
// TokenReview and SubjectAccessReview (--kubeconfig, or the ServiceAccount of its pod), and you register its APIServices.
package apiservice
