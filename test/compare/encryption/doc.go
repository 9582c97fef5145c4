// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package encryption encrypts what the three services store, by keys in a file and by a KMS plugin, changes the keys while the
// services run, and demands of Tripod what kube-apiserver does. Both look at the file once a minute, so this takes a little more than
// that.
package encryption
