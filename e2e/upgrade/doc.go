// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade has helm upgrade a release to another minor version of Kubernetes, back, and there again, while clients go on,
// and its etcd there and back. It follows docs/upgrade.md. `make e2e-upgrade` builds the images of both versions.
package upgrade
