// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/test/framework"
)

// shared is what all tests use that need no flags of their own.
var shared *pair

// pair is a stock kube-apiserver and what is compared with it.
type pair [2]*side

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		hooks = newHookServer()
		manifests, err := writeConfiguration(env.Dir)
		if err != nil {
			return err
		}
		shared, err = start(ctx, env,
			"--enable-admission-plugins=OwnerReferencesPermissionEnforcement,NamespaceExists,AlwaysAdmit",
			"--feature-gates=ManifestBasedAdmissionControlConfig=true",
			"--admission-control-config-file="+manifests,
		)
		return err
	})
}

// start starts both with the same further flags and makes definitions of custom resources.
func start(ctx context.Context, env *framework.Environment, args ...string) (*pair, error) {
	var p pair
	starting, ctx := errgroup.WithContext(ctx)
	for i, dropIn := range []bool{false, os.Getenv("TEST_AGAINST") != "stock"} {
		starting.Go(func() error {
			cluster, err := env.StartStock(ctx, framework.StockOptions{Args: args, DropIn: dropIn})
			if err != nil {
				return err
			}
			p[i] = &side{name: []string{"stock", "tripod"}[i], server: cluster.Cluster, process: cluster, clients: map[string]*http.Client{}}
			return cluster.Create(ctx, definitions)
		})
	}
	return &p, starting.Wait()
}

// writeConfiguration writes the file of --admission-control-config-file and what it refers to.
func writeConfiguration(dir string) (string, error) {
	files := map[string]string{"quota.yaml": quotaConfiguration}
	configuration := `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  path: quota.yaml
- name: PodSecurity
  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {warn: baseline}}
`
	for plugin, manifest := range manifests {
		folder := filepath.Join(dir, "manifests", plugin)
		files[filepath.Join("manifests", plugin, "all.yaml")] = hooks.fill(manifest)
		configuration += fmt.Sprintf(pluginConfiguration, plugin, kindOfConfiguration(plugin), folder)
	}
	files["admission.yaml"] = configuration
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "admission.yaml"), nil
}

// definitions are of custom resources in namespaces, widgets and licences, and outside, gadgets.
const definitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {color: {type: string}, replicas: {type: integer}, allowed: {type: array, items: {type: string}}}
          status: {type: object, properties: {replicas: {type: integer}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {allowed: {type: array, items: {type: string}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: licences.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: licences, singular: licence, kind: Licence, listKind: LicenceList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
