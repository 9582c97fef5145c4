// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/test/framework"
)

// flunders are what the sample API server serves.
var flunders = resource{schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}, "Flunder"}

const flunderService = "v1alpha1.wardle.example.com"

// flunder returns an object without data.
func flunder(name string) *unstructured.Unstructured {
	object := flunders.object(name, "")
	delete(object.Object, "data")
	return object
}

// sampleServer is a process of k8s.io/sample-apiserver.
type sampleServer struct {
	*framework.SampleServer
	*framework.Process
	port int
}

func startSampleServer(t testing.TB, env *framework.Environment, c *framework.Cluster) *sampleServer {
	t.Helper()
	server := env.NewSampleServer(t, c)
	port, err := framework.FreePort()
	require.NoError(t, err)
	process, err := env.Start(server.Command("sample-apiserver", port))
	require.NoError(t, err)
	return &sampleServer{server, process, port}
}

// externalName creates a Service that stands for localhost.
func (s *sampleServer) externalName(t testing.TB) string {
	t.Helper()
	service, err := kubeClient(t, s.Cluster.Admin()).CoreV1().Services(s.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "by-name-"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return service.Name
}
