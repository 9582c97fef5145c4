// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/base/certs"
)

// List describes the certificates in the Secrets of a namespace that the selector of labels matches.
func List(ctx context.Context, client kubernetes.Interface, namespace, selector string) ([]certs.Info, error) {
	list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "type=" + string(corev1.SecretTypeTLS),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list Secrets of namespace %s: %w", namespace, err)
	}
	var all []certs.Info
	for _, secret := range list.Items {
		all = append(all, certs.Describe(secret.Name, secret.Data[certKey])...)
		all = append(all, certs.Describe(certs.Next(secret.Name), secret.Data[nextCertKey])...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no certificates in Secrets of namespace %s", namespace)
	}
	certs.Sort(all)
	return all, nil
}
