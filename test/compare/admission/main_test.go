// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
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
	sides, err := both.Start(ctx, func(ctx context.Context, tripod bool) (*side, error) {
		server, err := env.StartStock(ctx, framework.StockOptions{Args: slices.Concat(args, both.EmulationFlags()), DropIn: tripod})
		if err != nil {
			return nil, err
		}
		if err := both.ExpectEmulation(server.Admin()); err != nil {
			return nil, err
		}
		return newSide("", server.Cluster, server), server.Create(ctx, definitions)
	})
	if err != nil {
		return nil, err
	}
	sides[0].name, sides[1].name = "stock", "tripod"
	return (*pair)(&sides), nil
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
var definitions = framework.CRD{
	Kind: "Widget", Subresources: "{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
	Schema: "{type: object, properties: {spec: {type: object, properties: {color: {type: string}, replicas: {type: integer}, allowed: {type: array, items: {type: string}}}}, " +
		"status: {type: object, properties: {replicas: {type: integer}}}}}",
}.String() + "---\n" + framework.CRD{
	Kind: "Gadget", ClusterScoped: true, Schema: "{type: object, properties: {spec: {type: object, properties: {allowed: {type: array, items: {type: string}}}}}}",
}.String() + "---\n" + framework.CRD{Kind: "Licence", Schema: "{type: object}"}.String()
