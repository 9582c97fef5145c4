// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission compares how a stock kube-apiserver and Tripod's drop-in, both started with the same flags, admit custom
// resources: every admission plugin that concerns them, policies, webhooks, quota, and configuration by files.
//
// A test is a list of steps that both get. The first steps set something up and wait until it is in force; from then on each
// request is sent once, and the answers, warnings included, and what webhooks were asked must be the same.
package admission
