// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// boats are the custom resources of docs/examples/boats.yaml.
var boats = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}

// giveUp ends a watch that would never end. It says nothing about how fast anything is.
const giveUp = 2 * time.Minute

// kubectl runs Tripod's kubectl with a kubeconfig of the pod, and returns its output.
func (h *host) kubectl(kubeconfig string, args ...string) string {
	h.t.Helper()
	command := exec.CommandContext(h.t.Context(), h.env.Binary("tripod"),
		append([]string{"kubectl", "--kubeconfig=" + h.path(kubeconfig), "--cache-dir=" + filepath.Join(h.env.Dir, "cache")}, args...)...)
	command.Env = append(os.Environ(), "HOME="+h.env.Dir)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	require.NoError(h.t, err, "kubectl %s: %s%s", strings.Join(args, " "), out, &errors)
	return string(out)
}

// knows returns an error unless a token is that of a user.
func (h *host) knows(kubeconfig, token, user string) error {
	config, err := clientcmd.BuildConfigFromFlags("", h.path(kubeconfig))
	if err != nil {
		return err
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(h.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && self.Status.UserInfo.Username != user {
		err = fmt.Errorf("the user is %s", self.Status.UserInfo.Username)
	}
	return err
}

// works uses built-in objects by kubectl, and custom resources in each way in which storages are used.
func (h *host) works(kubeconfig string) {
	h.t.Helper()
	t := h.t
	h.kubectl(kubeconfig, "create", "configmap", "note", "--from-literal=a=b")
	assert.Equal(t, "b", h.kubectl(kubeconfig, "get", "configmap", "note", "-o", "jsonpath={.data.a}"))
	h.kubectl(kubeconfig, "create", "serviceaccount", "robot")
	token := strings.TrimSpace(h.kubectl(kubeconfig, "create", "token", "robot"))
	require.NoError(t, h.knows(kubeconfig, token, "system:serviceaccount:default:robot"))

	h.kubectl(kubeconfig, "apply", "-f", filepath.Join("..", "..", "..", "docs", "examples", "boats.yaml"))
	h.kubectl(kubeconfig, "wait", "--for=condition=Established", "--timeout=60s", "crd/boats.example.com")
	config, err := clientcmd.BuildConfigFromFlags("", h.path(kubeconfig))
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	fleet := client.Resource(boats).Namespace("default")
	list, err := fleet.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	events, err := fleet.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer events.Stop()

	dinghy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "dinghy"}, "spec": map[string]any{"length": int64(3)},
	}}
	_, err = fleet.Create(t.Context(), dinghy, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = fleet.Create(t.Context(), dinghy, metav1.CreateOptions{})
	require.ErrorContains(t, err, "already exists")
	_, err = fleet.Patch(t.Context(), "dinghy", types.MergePatchType, []byte(`{"spec":{"length":4}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	got, err := fleet.Get(t.Context(), "dinghy", metav1.GetOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 4, got.Object["spec"].(map[string]any)["length"])
	require.NoError(t, fleet.Delete(t.Context(), "dinghy", metav1.DeleteOptions{}))
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		expect(t, events, want)
	}
}

// expect takes the next event of a watch.
func expect(t *testing.T, events watch.Interface, want watch.EventType) {
	t.Helper()
	event, open := <-events.ResultChan()
	require.True(t, open, "the watch has ended before %s", want)
	require.Equal(t, want, event.Type, "%v", event.Object)
}
