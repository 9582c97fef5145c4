// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build kube1.36

package trust

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// mayAllow returns false: before Kubernetes 1.37, no decision has conditions.
func mayAllow(context.Context, authorizer.Authorizer, authorizer.Attributes) bool { return false }
