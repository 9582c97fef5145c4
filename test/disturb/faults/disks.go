// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// slowWrites is how many writes a second a slow disk does: each sync takes more than 100 ms.
const slowWrites = 8

// disks are troubles of etcd's disk.
func disks() []fault {
	return []fault{
		{
			name: "disk of etcd full", group: "disk", sides: both, needs: ownDisk,
			begin: func(ctx context.Context, c *cluster) error { return errors.Join(c.disk.fill(), c.writeMuch(ctx)) },
			end:   func(_ context.Context, c *cluster) error { return c.disk.empty() },
		},
		{
			name: "disk of etcd slow", group: "disk", sides: both, needs: ownDisk,
			begin: func(_ context.Context, c *cluster) error { return c.machine.hosts[etcd].slow(c.disk, slowWrites) },
			end:   func(_ context.Context, c *cluster) error { return c.machine.hosts[etcd].slow(c.disk, 0) },
		},
		{
			name: "disk of etcd hangs", group: "disk", sides: both, needs: ownDisk,
			begin: func(ctx context.Context, c *cluster) error { return c.disk.freeze(ctx) },
			end:   func(ctx context.Context, c *cluster) error { return c.disk.thaw(ctx) },
		},
	}
}

// writeMuch writes until etcd cannot. It has some room in files that it has made already.
func (c *cluster) writeMuch(ctx context.Context) error {
	admin, err := kubernetes.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return err
	}
	const tries, size = 300, 700 << 10
	for i := range tries {
		name := fmt.Sprintf("large-%d", i%3)
		large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": strings.Repeat(string('a'+rune(i%26)), size)}}
		_, err := admin.CoreV1().ConfigMaps(metav1.NamespaceDefault).Update(ctx, large, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = admin.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, large, metav1.CreateOptions{})
		}
		if err != nil {
			return nil //nolint:nilerr // that is what was wanted
		}
	}
	return errors.New("etcd has still room")
}
