// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/connect"
)

const (
	// helmSecret is the type of the Secrets in which Helm keeps releases.
	helmSecret = corev1.SecretType("helm.sh/release.v1")
	// logLines bounds the log of a container before its end is taken.
	logLines = 20_000
	// maxPods bounds the pods whose logs are read.
	maxPods = 200
	// maxEvents bounds the events of a namespace.
	maxEvents = 2000
)

// Release is a Helm release, as the user of the cluster that it runs in sees it.
type Release struct {
	Config          *rest.Config
	Client          kubernetes.Interface
	Namespace, Name string

	release *connect.Release
	api     *API
	tunnel  *connect.Tunnel
}

// Find fails if there is no such release.
func (s *Release) Find(ctx context.Context) (err error) {
	s.release, err = connect.Find(ctx, s.Client, s.Namespace, s.Name)
	return err
}

// Close ends the connection to the API of the release.
func (s *Release) Close() {
	if s.tunnel != nil {
		s.tunnel.Close()
	}
}

// Secrets lets the scrubber know the Secrets of the namespace, and those of the API of the release.
func (s *Release) Secrets(ctx context.Context, a *Archive) {
	know(ctx, a, s.Client, s.Namespace, "of the namespace")
	if err := s.open(ctx, a); err != nil {
		a.Problem("the API of the release is not asked: %v", err)
		return
	}
	s.api.Secrets(ctx, a)
}

// open opens the API of the release.
func (s *Release) open(ctx context.Context, a *Archive) error {
	entry, err := s.release.Credentials(ctx, s.Client)
	if err != nil {
		return err
	}
	knowUser(a, entry.User)
	opening, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	if s.tunnel, err = connect.Open(opening, s.release, connect.Options{
		Config: s.Config, Client: s.Client, Progress: a.Progress,
	}); err != nil {
		return err
	}
	config := &rest.Config{Host: s.tunnel.Server(), BearerToken: entry.User.Token}
	config.CAData = entry.Cluster.CertificateAuthorityData
	config.CertData, config.KeyData = entry.User.ClientCertificateData, entry.User.ClientKeyData
	s.api = &API{Folder: "api", Config: config}
	return nil
}

func knowUser(a *Archive, user *clientcmdapi.AuthInfo) {
	a.Scrubber.Know(user.ClientKeyData)
	a.Scrubber.Know([]byte(user.Token))
}

// Collect reads what the cluster knows about the release, and then asks its API.
func (s *Release) Collect(ctx context.Context, a *Archive) {
	defer s.Close()
	s.helm(ctx, a)
	pods := s.pods(ctx, a)
	s.workloads(ctx, a)
	s.events(ctx, a)
	for _, pod := range pods[:min(len(pods), maxPods)] {
		s.logs(ctx, a, &pod)
	}
	if len(pods) > maxPods {
		a.Problem("the logs of %d pods are left out", len(pods)-maxPods)
	}
	if s.api != nil {
		s.api.Collect(ctx, a)
	}
}

// revision is what Helm keeps about a release, as far as the archive has it.
type revision struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Info    struct {
		Status       string `json:"status"`
		Description  string `json:"description"`
		LastDeployed string `json:"last_deployed"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
	// Config are the values that the user has set.
	Config map[string]any `json:"config"`
}

// helm adds the newest revision of the release, with redacted values.
func (s *Release) helm(ctx context.Context, a *Archive) {
	a.Progress("reading the values of the release")
	list, err := s.Client.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + s.Name})
	if err != nil {
		a.Problem("the values of the release cannot be read: %v", err)
		return
	}
	var newest *corev1.Secret
	number := -1
	for i := range list.Items {
		if n, err := strconv.Atoi(list.Items[i].Labels["version"]); err == nil && n > number && list.Items[i].Type == helmSecret {
			newest, number = &list.Items[i], n
		}
	}
	if newest == nil {
		a.Problem("Helm knows no release %s in the namespace: its values are not in the archive", s.Name)
		return
	}
	r, err := decodeRevision(newest.Data["release"])
	if err != nil {
		a.Problem("the values of the release cannot be read: %v", err)
		return
	}
	r.Config, _ = RedactValues(r.Config).(map[string]any)
	a.JSON("release/helm.json", r)
}

func decodeRevision(data []byte) (*revision, error) {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(unpacked, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxFileBytes {
		return nil, fmt.Errorf("it has more than %d MiB", maxFileBytes>>20)
	}
	var r revision
	return &r, json.Unmarshal(plain, &r)
}

// podState is what the archive has of a pod: no environment, no volumes.
type podState struct {
	Name, Component, Node, Phase, Reason, Message string
	Created                                       time.Time
	Conditions                                    []corev1.PodCondition
	Containers                                    []containerState
}

type containerState struct {
	Name, Image, ImageID string
	Ready                bool
	Restarts             int32
	State, LastState     corev1.ContainerState
	Resources            corev1.ResourceRequirements
}

func (s *Release) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=tripod,app.kubernetes.io/instance=" + s.Name}
}

func (s *Release) pods(ctx context.Context, a *Archive) []corev1.Pod {
	a.Progress("reading the pods of the release")
	list, err := s.Client.CoreV1().Pods(s.Namespace).List(ctx, s.selector())
	if err != nil {
		a.Problem("the pods of the release cannot be listed: %v", err)
		return nil
	}
	states := make([]podState, len(list.Items))
	for i := range list.Items {
		states[i] = stateOf(&list.Items[i])
	}
	a.JSON("release/pods.json", states)
	return list.Items
}

func stateOf(pod *corev1.Pod) podState {
	state := podState{
		Name: pod.Name, Component: pod.Labels["app.kubernetes.io/component"], Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
		Reason: pod.Status.Reason, Message: pod.Status.Message, Created: pod.CreationTimestamp.Time, Conditions: pod.Status.Conditions,
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		c := containerState{Name: container.Name, Image: container.Image, Resources: container.Resources}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.Name == container.Name {
				c.ImageID, c.Ready, c.Restarts = status.ImageID, status.Ready, status.RestartCount
				c.State, c.LastState = status.State, status.LastTerminationState
			}
		}
		state.Containers = append(state.Containers, c)
	}
	return state
}

// workloads adds the status of what makes the pods.
func (s *Release) workloads(ctx context.Context, a *Archive) {
	type workload struct {
		Kind, Name string
		Status     any
	}
	var all []workload
	var errs []error
	if list, err := s.Client.AppsV1().Deployments(s.Namespace).List(ctx, s.selector()); err == nil {
		for _, o := range list.Items {
			all = append(all, workload{"Deployment", o.Name, o.Status})
		}
	} else {
		errs = append(errs, err)
	}
	// The chart gives its other objects these labels, too.
	if list, err := s.Client.AppsV1().StatefulSets(s.Namespace).List(ctx, s.selector()); err == nil {
		for _, o := range list.Items {
			all = append(all, workload{"StatefulSet", o.Name, o.Status})
		}
	} else {
		errs = append(errs, err)
	}
	if list, err := s.Client.BatchV1().Jobs(s.Namespace).List(ctx, s.selector()); err == nil {
		for _, o := range list.Items {
			all = append(all, workload{"Job", o.Name, o.Status})
		}
	} else {
		errs = append(errs, err)
	}
	if list, err := s.Client.BatchV1().CronJobs(s.Namespace).List(ctx, s.selector()); err == nil {
		for _, o := range list.Items {
			all = append(all, workload{"CronJob", o.Name, o.Status})
		}
	} else {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		a.Problem("not all workloads of the release can be listed: %v", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	a.JSON("release/workloads.json", all)
}

// events adds the events of the namespace.
func (s *Release) events(ctx context.Context, a *Archive) {
	list, err := s.Client.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{Limit: maxEvents})
	if err != nil {
		a.Problem("the events of the namespace cannot be listed: %v", err)
		return
	}
	type event struct {
		Last                                time.Time
		Type, Reason, Kind, Object, Message string
		Count                               int32
	}
	events := []event{}
	for _, e := range list.Items {
		last := e.LastTimestamp.Time
		if last.IsZero() {
			last = e.EventTime.Time
		}
		events = append(events, event{last, e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message, e.Count})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Object, b.Object)) })
	a.JSON("release/events.json", events)
}

// logs adds the ends of the logs of a pod's containers, also of those before a restart.
func (s *Release) logs(ctx context.Context, a *Archive, pod *corev1.Pod) {
	a.Progress("reading the logs of " + pod.Name)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, previous := range []bool{false, true} {
			if previous && status.RestartCount == 0 || !previous && status.State.Waiting != nil {
				continue
			}
			name := fmt.Sprintf("logs/%s-%s.log", fileName(pod.Name), fileName(status.Name))
			if previous {
				name = strings.TrimSuffix(name, ".log") + "-previous.log"
			}
			lines := int64(logLines)
			stream, err := s.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
				Container: status.Name, Previous: previous, TailLines: &lines, Timestamps: true}).Stream(ctx)
			if err != nil {
				a.Problem("the log of %s, container %s, cannot be read: %v", pod.Name, status.Name, err)
				continue
			}
			data, truncated, err := end(stream, a.MaxLogBytes)
			if closed := stream.Close(); err == nil {
				err = closed
			}
			if err != nil {
				a.Problem("the log of %s, container %s, breaks off: %v", pod.Name, status.Name, err)
			}
			a.Text(name, data, truncated)
		}
	}
}

// end returns the last bytes of a stream, from the beginning of a line.
func end(stream io.Reader, most int64) (data []byte, truncated bool, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := stream.Read(buffer)
		data = append(data, buffer[:n]...)
		if over := int64(len(data)) - 2*most; over > 0 {
			data, truncated = slices.Clone(data[int64(len(data))-most:]), true
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if over := int64(len(data)) - most; over > 0 {
				data, truncated = data[over:], true
			}
			if truncated {
				_, data, _ = bytes.Cut(data, []byte("\n"))
			}
			return data, truncated, err
		}
	}
}
