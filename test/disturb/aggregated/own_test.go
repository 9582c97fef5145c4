// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Tripod's own services are judged in the same way.
func TestTheConditionOfAServiceFollowsItsReplicas(t *testing.T) {
	replica := fleet.Replica("extensions-0")
	address := strings.TrimPrefix(replica.URL, "https://")
	awaitOwn(t, apiregistrationv1.ConditionTrue, "all checks passed")
	require.NoError(t, replica.Kill())
	died := time.Now()
	awaitOwn(t, apiregistrationv1.ConditionFalse, address)
	t.Logf("the condition named the dead replica after %s", milliseconds(time.Since(died)))
	require.NoError(t, replica.Start())
	require.NoError(t, replica.WaitReady(t.Context()))
	ready := time.Now()
	awaitOwn(t, apiregistrationv1.ConditionTrue, "all checks passed")
	t.Logf("the condition was good %s after the replica was ready", milliseconds(time.Since(ready)))
}

func awaitOwn(t *testing.T, status apiregistrationv1.ConditionStatus, message string) {
	t.Helper()
	client, err := aggregator.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	framework.Eventually(t, fmt.Sprintf("Available is %s with %q", status, message), func(ctx context.Context) error {
		service, err := client.ApiregistrationV1().APIServices().Get(ctx, "v1.apiextensions.k8s.io", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
		if got == nil || got.Status != status || !strings.Contains(got.Message, message) {
			return fmt.Errorf("the condition is %v", got)
		}
		return nil
	})
}
