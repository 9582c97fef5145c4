// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// AwaitReachable returns when Tripod answers from outside the cluster. kube-proxy may need a second for a new Service.
func (r *Release) AwaitReachable(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(r.Admin())
	if err != nil {
		return err
	}
	return framework.Poll(ctx, "Tripod answers at "+r.Admin().Host, func(context.Context) error {
		_, err := client.Discovery().ServerVersion()
		return err
	})
}

// Customs returns so many kinds of custom resources.
func Customs(count int) []traffic.Resource {
	var customs []traffic.Resource
	for i := range count {
		customs = append(customs, traffic.Custom(fmt.Sprintf("Kind%02d", i)))
	}
	return customs
}

// Define defines custom resources and returns when Tripod serves them.
func (r *Release) Define(ctx context.Context, customs []traffic.Resource) error {
	if _, err := r.Kubectl(ctx, traffic.Definitions(customs), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.Admin())
	if err != nil {
		return err
	}
	return framework.Poll(ctx, "custom resources are served", func(ctx context.Context) error {
		for _, custom := range customs {
			if err := client.CoreV1().RESTClient().Get().AbsPath(custom.Collection("default")).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}
