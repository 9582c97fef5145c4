// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers_test runs the unmodified controllers of Kubernetes against Tripod: kube-controller-manager and
// kube-scheduler, with the rights that the bootstrap RBAC objects give them, and kwok in place of kubelets.
//
// A test that takes a service away is not parallel: Go runs it before those that are.
package controllers_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// nodeName is the name of the fake node.
const nodeName = "fake"

var (
	// tripod is shared by the tests, and so are the controllers that run against it.
	tripod *framework.Tripod
	// client and objects are the administrator's.
	client  kubernetes.Interface
	objects dynamic.Interface
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		if tripod, err = env.StartTripod(ctx, framework.TripodOptions{}); err != nil {
			return err
		}
		if client, err = kubernetes.NewForConfig(tripod.Admin()); err != nil {
			return err
		}
		if objects, err = dynamic.NewForConfig(tripod.Admin()); err != nil {
			return err
		}
		return env.StartControllers(ctx, tripod.Cluster, framework.ControllersOptions{Nodes: []string{nodeName}})
	})
}

// gone returns nil when get does not find an object.
func gone(ctx context.Context, what string, get func(context.Context) (metav1.Object, error)) error {
	object, err := get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is still there: deleted at %v, finalizers %v, owners %v",
		what, object.GetDeletionTimestamp(), object.GetFinalizers(), object.GetOwnerReferences())
}
