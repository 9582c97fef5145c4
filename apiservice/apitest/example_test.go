// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
)

// A test starts an API with the service behind it, and uses it as users do. TestMain calls [apitest.Main].
func ExampleStart() {
	_ = func(t *testing.T) {
		t.Parallel()
		api := apitest.Start(t, clock())
		jane, err := metadata.NewForConfig(api.User("jane"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = jane.Resource(moments).Get(t.Context(), "now", metav1.GetOptions{})
		if !apierrors.IsForbidden(err) {
			t.Fatalf("jane may read moments: %v", err)
		}
		api.Allow("jane", rbacv1.PolicyRule{APIGroups: []string{moments.Group}, Resources: []string{"moments"}, Verbs: []string{"get"}})
		if _, err = jane.Resource(moments).Get(t.Context(), "now", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// One replica of two is enough for clients.
func ExampleOptions_Start() {
	_ = func(t *testing.T) {
		api := apitest.Options{Replicas: 2, Args: []string{"--label=two"}}.Start(t, clock())
		api.Kill("clock-0")
		client, err := metadata.NewForConfig(api.Admin())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(moments).Get(t.Context(), "now", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
