// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

// volumeClass is the storage class of the volumes that [Environment.Volume] makes.
const volumeClass = "e2e"

// Volume makes a persistent volume on the node, for whoever claims it first: kind does not provision any on every node image. One that is
// there stays as it is, with its data, unless its claim is gone.
func (e *Environment) Volume(ctx context.Context, name string) error {
	path := "/var/lib/tripod-e2e/" + name
	volumes := e.Cluster.Client.CoreV1().PersistentVolumes()
	known, err := volumes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("cannot make a volume: %w", err)
	case known.Status.Phase == corev1.VolumeReleased:
		if err := e.discard(ctx, name, path); err != nil {
			return fmt.Errorf("cannot empty a volume: %w", err)
		}
	default:
		return nil
	}
	if _, err := e.Cluster.Exec(ctx, nil, "install", "-d", "-o", "65532", "-g", "65532", "-m", "0700", path); err != nil {
		return fmt.Errorf("cannot make a volume: %w", err)
	}
	_, err = volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: volumeClass,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path},
			},
		},
	}, metav1.CreateOptions{})
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
			return fmt.Errorf("it is there: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if err == nil {
		_, err = e.Cluster.Exec(ctx, nil, "rm", "-rf", path)
	}
	return err
}
