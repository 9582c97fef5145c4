// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
)

// ExpectHealthy makes the checks that docs/upgrade.md asks for after each service.
func ExpectHealthy(t testing.TB, config *rest.Config) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	services, err := clientset.NewForConfig(config)
	require.NoError(t, err)
	framework.Eventually(t, "the checks of docs/upgrade.md pass", func(ctx context.Context) error {
		for _, path := range []string{"/readyz", "/readyz/same-settings"} {
			answer, err := client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
			if err != nil || string(answer) != "ok" {
				return fmt.Errorf("%s says %q: %w", path, answer, err)
			}
		}
		all, err := services.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			if s := &all.Items[i]; !helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available) {
				return fmt.Errorf("APIService %s is unavailable: %v", s.Name, s.Status.Conditions)
			}
		}
		return nil
	})
}
