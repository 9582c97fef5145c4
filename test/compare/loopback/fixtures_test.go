// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

// scene is a namespace and a kind of custom resource for a test, named the same in both clusters.
type scene struct {
	*framework.Cluster
	// name is that of the namespace, and of what has none.
	name string
}

func newScene(t *testing.T, cluster *framework.Cluster, name string) *scene {
	t.Helper()
	s := &scene{Cluster: cluster, name: name}
	s.create(t, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)
	return s
}

// widgets is a kind of custom resource in the group NAME.example.com.
var widgets = framework.CRD{
	Kind: "Widget", Group: "NAME.example.com",
	Schema: "{type: object, properties: {spec: {type: object, properties: {max: {type: integer}, " +
		"parts: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], " +
		"properties: {name: {type: string}, size: {type: integer}, color: {type: string}}}}}}}}",
}.String()

// in returns a manifest for this scene.
func (s *scene) in(manifest string) string { return strings.ReplaceAll(manifest, "NAME", s.name) }

func (s *scene) create(t *testing.T, manifests string) {
	t.Helper()
	require.NoError(t, s.Create(t.Context(), s.in(manifests)))
}

// attempt creates an object with any name as a user, and returns it, or the error without the name.
func (s *scene) attempt(ctx context.Context, config *rest.Config, manifest string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(s.in(manifest)), &object.Object); err != nil {
		return nil, err
	}
	name := "attempt-" + rand.String(8)
	object.SetName(name)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	created, err := client.Resource(resource).Namespace(s.name).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), name, "attempt"))
	}
	return created, nil
}

// refused waits until an object is not created for that reason, and returns the whole error.
func (s *scene) refused(t *testing.T, config *rest.Config, reason, manifest string) string {
	t.Helper()
	var whole string
	framework.Eventually(t, "refused: "+reason, func(ctx context.Context) error {
		_, err := s.attempt(ctx, config, manifest)
		switch {
		case err == nil:
			return errors.New("it was created")
		case !strings.Contains(err.Error(), reason):
			return fmt.Errorf("refused for another reason: %w", err)
		}
		whole = err.Error()
		return nil
	})
	return whole
}

// created waits until an object is created that is as expected.
func (s *scene) created(t *testing.T, config *rest.Config, manifest string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	framework.Eventually(t, "it is created as it should be", func(ctx context.Context) (err error) {
		if found, err = s.attempt(ctx, config, manifest); err != nil || check == nil {
			return err
		}
		return check(found)
	})
	return found
}
