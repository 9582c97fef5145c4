// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// serving is a port that serves a certificate.
type serving struct {
	component  string
	port       int
	serverName string
	// secret is the name of the certificate's Secret without the name of the release. Each etcd has its own.
	secret string
}

func (s serving) secretOf(pod *corev1.Pod) string {
	return tripod.Name + "-" + cmp.Or(s.secret, pod.Labels["tripod-k8s.io/etcd"]+"-server")
}

var servings = []serving{
	{release.Aggregator, 6443, "", "apiserver"},
	{release.Aggregator, 6443, "aggregator.tripod-system.svc", "aggregator"},
	{release.Core, 6443, "", "core"},
	{release.Core, 6444, "", "core"},
	{release.Extensions, 6443, "", "extensions"},
	{release.Extensions, 6444, "", "extensions"},
	{release.Etcd, 2379, "", ""},
}

// TestCertificates renews all certificates of the release with `tripod certs secrets --renew all` while clients go on. No request fails,
// and no pod restarts.
func TestCertificates(t *testing.T) {
	settled(t)
	before, pods := serials(t), podsOfRelease(t)
	clients := load(t)
	clients.Progress(t, 100)
	runCertificates(t, "renew", "--renew=all")
	taken(t)
	after := serials(t)
	for secret, serial := range before {
		if after[secret] == serial {
			t.Errorf("%s still has the old certificate", secret)
		}
	}
	clients.Progress(t, 200)
	clients.Finish(t)
	clients.FailsNever(t)
	clients.WatchesAreWell(t, false)
	clients.SawAll(t)
	samePods(t, pods)
	// New clients use the new kubeconfig and new connections.
	if _, err := tripod.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t)
}

// TestAuthorities replaces the certificate authorities of clients and services in the three steps of `tripod certs secrets --renew-ca`. It
// leaves out those of etcd, which reads its trusted authorities only at start.
func TestAuthorities(t *testing.T) {
	settled(t)
	pods := podsOfRelease(t)
	args := []string{"--settle=0s"}
	for _, name := range []string{"ca", "front-proxy-ca", "service-ca"} {
		args = append(args, "--renew-ca="+tripod.Name+"-"+name)
	}
	steps := func(names ...string) {
		clients := load(t)
		for _, step := range names {
			clients.Progress(t, 100)
			runCertificates(t, "authorities-"+step, args...)
			taken(t)
			clients.Progress(t, 100)
		}
		clients.Finish(t)
		clients.FailsNever(t)
		clients.WatchesAreWell(t, false)
		clients.SawAll(t)
	}
	connect := func() []byte {
		config, err := tripod.Connect(t.Context())
		require.NoError(t, err)
		return config.CAData
	}
	first := connect()
	steps("trusted", "issues")
	// Clients need the new kubeconfig before the old authority is removed.
	both := connect()
	steps("done")
	last := connect()
	if bytes.Equal(first, last) || !bytes.Contains(both, bytes.TrimSpace(first)) || !bytes.Contains(both, bytes.TrimSpace(last)) {
		t.Error("clients never had both authorities at the same time")
	}
	samePods(t, pods)
	settled(t)
}

// runCertificates runs a Job of the chart's CronJob with additional arguments, and returns when the Job is complete.
func runCertificates(t *testing.T, name string, args ...string) {
	t.Helper()
	err := progress.Step(fmt.Sprintf("tripod certs secrets %v", args), func() error {
		batch := tripod.Host.Client.BatchV1()
		cron, err := batch.CronJobs(tripod.Namespace).Get(t.Context(), tripod.Name+"-certificates", metav1.GetOptions{})
		if err != nil {
			return err
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}, Spec: cron.Spec.JobTemplate.Spec}
		container := &job.Spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, args...)
		if job, err = batch.Jobs(tripod.Namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			return err
		}
		return framework.Poll(t.Context(), "Job "+job.Name+" is done", func(ctx context.Context) error {
			now, err := batch.Jobs(tripod.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
			if err == nil && now.Status.Succeeded == 0 {
				err = fmt.Errorf("%d pods failed", now.Status.Failed)
			}
			return err
		})
	})
	require.NoError(t, err)
}

// taken returns when all pods have the files of the Secrets and serve their certificates.
func taken(t *testing.T) {
	t.Helper()
	err := progress.Step("pods take over the certificates of the Secrets", func() error {
		for _, pod := range podsOfRelease(t) {
			if err := hurry(t, &pod); err != nil {
				return err
			}
			if err := framework.Poll(t.Context(), pod.Name+" has the files", func(ctx context.Context) error { return hasFiles(ctx, &pod) }); err != nil {
				return err
			}
		}
		for _, s := range servings {
			pods, err := tripod.Pods(t.Context(), s.component)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				if err := framework.Poll(t.Context(), pod.Name+" shows the certificate", func(ctx context.Context) error { return shows(ctx, &pod, s) }); err != nil {
					return err
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// hurry makes the kubelet sync a pod now. Otherwise it does so every minute.
func hurry(t *testing.T, pod *corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.tripod/hurry":%q}}}`, t.Name()+metav1.Now().String())
	_, err := tripod.Host.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// hasFiles returns an error if a file of a pod's volumes differs from its Secret.
func hasFiles(ctx context.Context, pod *corev1.Pod) error {
	var all error
	check := func(kind, volume, secretName string, items []corev1.KeyToPath) {
		secret, err := tripod.Host.Client.CoreV1().Secrets(pod.Namespace).Get(ctx, secretName, metav1.GetOptions{})
		if err != nil {
			all = errors.Join(all, err)
			return
		}
		if items == nil {
			for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
				items = append(items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range items {
			file := path.Join("/var/lib/kubelet/pods", string(pod.UID), "volumes", "kubernetes.io~"+kind, volume, item.Path)
			got, err := tripod.Host.Exec(ctx, nil, "cat", file)
			if err == nil && got != string(secret.Data[item.Key]) {
				err = fmt.Errorf("%s has an old %s of %s", pod.Name, item.Key, secretName)
			}
			all = errors.Join(all, err)
		}
	}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Secret != nil:
			check("secret", volume.Name, volume.Secret.SecretName, volume.Secret.Items)
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					check("projected", volume.Name, source.Secret.Name, source.Secret.Items)
				}
			}
		}
	}
	return all
}

// shows returns an error if a server's certificate differs from the one in its Secret.
func shows(ctx context.Context, pod *corev1.Pod, s serving) error {
	secret, err := tripod.Host.Client.CoreV1().Secrets(pod.Namespace).Get(ctx, s.secretOf(pod), metav1.GetOptions{})
	if err != nil {
		return err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return fmt.Errorf("%s has no certificate", secret.Name)
	}
	address, stop, err := tripod.Forward(ctx, pod.Name, s.port)
	if err != nil {
		return err
	}
	defer stop()
	var shown []byte
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: s.serverName, NextProtos: []string{"h2"},
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].Raw
			return nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if !bytes.Equal(shown, block.Bytes) {
		return fmt.Errorf("the certificate of %s at port %d is not that of %s", pod.Name, s.port, secret.Name)
	}
	return nil
}

// serials returns the certificates of the release by Secret, without the authorities.
func serials(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{
		"apiserver", "core", "extensions", "aggregator", "front-proxy-client", "kubelet-client", "admin",
		"etcd-server", "etcd-client", "etcd-client-core", "etcd-client-aggregator",
		"etcd-extensions-server", "etcd-extensions-client", "etcd-extensions-client-extensions",
	} {
		secret, err := tripod.Host.Client.CoreV1().Secrets(tripod.Namespace).Get(t.Context(), tripod.Name+"-"+name, metav1.GetOptions{})
		require.NoError(t, err)
		all[secret.Name] = string(secret.Data[corev1.TLSCertKey])
	}
	return all
}

// podsOfRelease returns the pods of all components.
func podsOfRelease(t *testing.T) []corev1.Pod {
	t.Helper()
	var all []corev1.Pod
	for _, component := range append([]string{release.Etcd}, release.Services...) {
		pods, err := tripod.Pods(t.Context(), component)
		require.NoError(t, err)
		all = append(all, pods...)
	}
	return all
}

// samePods expects the same pods as before, and no restarts.
func samePods(t *testing.T, before []corev1.Pod) {
	t.Helper()
	containers := func(pods []corev1.Pod) map[string]string {
		ids := map[string]string{}
		for _, pod := range pods {
			ids[pod.Name] = pod.Status.ContainerStatuses[0].ContainerID
		}
		return ids
	}
	if was, is := containers(before), containers(podsOfRelease(t)); !maps.Equal(was, is) {
		t.Errorf("containers were %v and are now %v", was, is)
	}
}
