// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	chart     = "tripod"
	helm      = "../../bin/tools/helm"
	namespace = "control"
)

// helmTemplate renders the chart with values in YAML, and more flags of helm template.
func helmTemplate(t *testing.T, values string, flags ...string) (string, error) {
	t.Helper()
	return templateOf(t, chart, values, flags...)
}

// templateOf renders a chart in a directory.
func templateOf(t *testing.T, chart, values string, flags ...string) (string, error) {
	t.Helper()
	if _, err := os.Stat(helm); err != nil {
		t.Fatalf("the tests need helm; `make bin/tools/helm` builds it: %v", err)
	}
	flags = append([]string{"template", "tripod", chart, "--namespace=" + namespace, "--kube-version=1.36.0", "--values=-"}, flags...)
	cmd := exec.CommandContext(t.Context(), helm, flags...)
	cmd.Stdin = strings.NewReader(values)
	// This keeps out the user's own plugins and repositories.
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.Join(err, errors.New(stderr.String()))
	}
	return out.String(), nil
}

// release is a rendered chart, as text and as objects.
type release struct {
	text    string
	objects []*unstructured.Unstructured
}

func render(t *testing.T, values string) release {
	t.Helper()
	text, err := helmTemplate(t, values)
	require.NoError(t, err)
	return parse(t, text)
}

// parse returns the objects in YAML documents.
func parse(t *testing.T, text string) release {
	t.Helper()
	r := release{text: text}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return r
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			r.objects = append(r.objects, object)
		}
	}
}

// profiles has the values for tests of the whole chart: the defaults and the examples.
var profiles = sync.OnceValue(func() map[string]string {
	all := map[string]string{"default": ""}
	paths, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(paths) == 0 {
		panic("there are no examples of values")
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), "-values.yaml")] = string(data)
	}
	return all
})

// rendered has the release of each profile, so that helm renders each only once.
var rendered sync.Map

// forEachProfile runs a test with the release of each profile. The test must not change the release.
func forEachProfile(t *testing.T, test func(*testing.T, release)) {
	t.Helper()
	for name, values := range profiles() {
		t.Run(name, func(t *testing.T) {
			r, ok := rendered.Load(name)
			if !ok {
				r = render(t, values)
				rendered.Store(name, r)
			}
			test(t, r.(release))
		})
	}
}

// find decodes the object of a kind and name into into, and returns it.
func find[T any](t *testing.T, r release, kind, name string, into *T) *T {
	t.Helper()
	for _, object := range r.objects {
		if object.GetKind() == kind && object.GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return into
		}
	}
	t.Fatalf("the release has no %s %s", kind, name)
	return nil
}

// pod is a pod or a pod template, and the object that owns it.
type pod struct {
	owner string
	meta  metav1.ObjectMeta
	spec  corev1.PodSpec
}

// pods returns all pods and pod templates of a release.
func (r release) pods(t *testing.T) []pod {
	t.Helper()
	var pods []pod
	for _, object := range r.objects {
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		if err != nil {
			continue // a kind of another project
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed))
		owner := object.GetKind() + " " + object.GetName()
		switch o := typed.(type) {
		case *corev1.Pod:
			pods = append(pods, pod{owner, o.ObjectMeta, o.Spec})
		case *appsv1.Deployment:
			pods = append(pods, pod{owner, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec})
		case *appsv1.StatefulSet:
			pods = append(pods, pod{owner, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec})
		case *batchv1.Job:
			pods = append(pods, pod{owner, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec})
		case *batchv1.CronJob:
			pods = append(pods, pod{owner, o.Spec.JobTemplate.Spec.Template.ObjectMeta, o.Spec.JobTemplate.Spec.Template.Spec})
		}
	}
	if len(pods) < 5 {
		t.Fatalf("only %d pods were found", len(pods))
	}
	return pods
}

// serves returns whether a pod runs until it is stopped, not only for a task.
func (p pod) serves() bool {
	return strings.HasPrefix(p.owner, "Deployment ") || strings.HasPrefix(p.owner, "StatefulSet ")
}
