// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kwokNode is the annotation of the nodes that kwok manages. A cluster may have others.
const kwokNode = "kwok.x-k8s.io/node"

// CreateNode creates a node that kwok manages.
func CreateNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{kwokNode: "fake"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot make a node: %w", err)
	}
	return nil
}

// EnsureNodes creates those of the nodes kwok-0, kwok-1 and so on that do not exist.
func EnsureNodes(ctx context.Context, client kubernetes.Interface, count int) error {
	for i := range count {
		if err := CreateNode(ctx, client, fmt.Sprintf("kwok-%d", i)); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
