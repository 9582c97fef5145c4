// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package services has additional API services behind aggregators: some of them die, claim what others have, show another's certificate or
// never become ready.
package services
