// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addresses reads where the replicas of services are, and where a service itself listens.
//
// A [Location] is the URL or address of one replica, or a DNS name that has the addresses of any number of replicas, such as the name
// of a headless Service. [Backends] is a file that lists locations for all services. A service reads it again when it changes, so
// that replicas can come and go while the service runs. It is YAML or JSON:
//
//	core:
//	  servers: ["https://127.0.0.1:20001", "https://127.0.0.1:20002"]
//	  grpc: ["127.0.0.1:20003", "127.0.0.1:20004"]
//	extensions:
//	  servers: ["https://127.0.0.1:20005"]
//	services:
//	  wardle:
//	    servers: ["https://127.0.0.1:20006"]
//	    grpc: ["127.0.0.1:20007"]
//	    balance: rendezvous
//	    groups: [wardle.example.com]
//	aggregator:
//	  servers: ["https://127.0.0.1:6443"]
//
// Its lists are those of the flags --core-servers, --core-grpc-servers, --extensions-servers and --aggregator-servers, and of the
// aggregator's --backend, --backend-grpc, --backend-balance and --backend-groups.
//
// A [BindFlag] names the host:port where a service serves something beside its API, such as gRPC or probes.
package addresses
