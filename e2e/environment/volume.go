// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

// VolumeClass is the storage class of the volumes that [Environment.Volume] creates.
const VolumeClass = "e2e"

// Volume creates a persistent volume on the node, because not every node image provisions volumes. The first claim gets it. An existing
// volume keeps its data, unless its claim is gone.
func (e *Environment) Volume(ctx context.Context, name string) error {
	if err := e.volumeClass(ctx); err != nil {
		return fmt.Errorf("cannot create a storage class: %w", err)
	}
	path := "/var/lib/tripod-e2e/" + name
	volumes := e.Cluster.Client.CoreV1().PersistentVolumes()
	known, err := volumes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("cannot create a volume: %w", err)
	case known.Status.Phase == corev1.VolumeReleased:
		if err := e.discard(ctx, name, path); err != nil {
			return fmt.Errorf("cannot empty a volume: %w", err)
		}
	default:
		return nil
	}
	if _, err := e.Cluster.Exec(ctx, nil, "install", "-d", "-o", "65532", "-g", "65532", "-m", "0700", path); err != nil {
		return fmt.Errorf("cannot create a volume: %w", err)
	}
	_, err = volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: VolumeClass,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// volumeClass creates the storage class, if it does not exist. As with most classes, a claim gets its volume only when a pod uses it.
func (e *Environment) volumeClass(ctx context.Context) error {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := e.Cluster.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: VolumeClass}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// discard removes a volume and its data.
func (e *Environment) discard(ctx context.Context, name, path string) error {
	volumes := e.Cluster.Client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := framework.Poll(ctx, "the volume is gone", func(ctx context.Context) error {
		if _, err := volumes.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the volume still exists: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if err == nil {
		_, err = e.Cluster.Exec(ctx, nil, "rm", "-rf", path)
	}
	return err
}
