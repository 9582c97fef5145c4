// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervision tests that a service manager, such as systemd, can run Tripod as it runs kube-apiserver.
package supervision
