// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/list"
)

var services = []string{"aggregator", "core", "extensions"}

// allChanges returns the changes, with those of each service.
func allChanges() []change {
	all := slices.Concat(changes, changesOfControllers(), changesOfKonnectivity(), changesOfConsole())
	for _, service := range list.OptionalNames() {
		all = append(all, changesOfOptional(service)...)
	}
	for _, service := range services {
		for _, c := range serviceChanges {
			c.path = service + "." + c.path
			c.want = strings.ReplaceAll(c.want, "SERVICE", service)
			c.with = strings.ReplaceAll(c.with, "SERVICE", service)
			all = append(all, c)
		}
	}
	return all
}

// changesOfOptional returns the changes of a block of values that consists of what the chart does for each service of ours. A block with more,
// as search has, has its own changes.
func changesOfOptional(service string) []change {
	found := []change{{path: service + ".enabled", value: "true", want: "- --backend=" + service + "=dns:///tripod-" + service + ".control.svc:6443"}}
	if slices.ContainsFunc(changes, func(c change) bool { return strings.HasPrefix(c.path, service+".") }) {
		return found
	}
	enabled := nested(service+".enabled", "true")
	return append(found,
		change{path: service + ".serve", value: "{replicas: 4}", want: "replicas: 4", with: enabled},
		change{path: service + ".groups", value: "[a.example.com]", want: "- --backend-groups=" + service + "=a.example.com", with: enabled},
	)
}

// nested returns YAML that sets the value at a path.
func nested(path, value string) string {
	for _, key := range slices.Backward(strings.Split(path, ".")) {
		value = fmt.Sprintf("{%s: %s}", key, value)
	}
	return value
}

// merged merges the values of YAML documents. Later documents override earlier ones.
func merged(t *testing.T, documents ...string) string {
	t.Helper()
	all := map[string]any{}
	for _, document := range documents {
		var values map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &values))
		overlay(all, values)
	}
	data, err := yaml.Marshal(all)
	require.NoError(t, err)
	return string(data)
}

func overlay(onto, values map[string]any) {
	for key, value := range values {
		below, ok := onto[key].(map[string]any)
		if above, isMap := value.(map[string]any); ok && isMap {
			overlay(below, above)
			continue
		}
		onto[key] = value
	}
}

// batches groups changes that can be rendered together, because rendering is slow.
func batches() map[string][]change {
	all := map[string][]change{}
	for _, c := range allChanges() {
		name := "with " + c.with
		if c.alone {
			name = c.path
		}
		all[name] = append(all[name], c)
	}
	return all
}

func TestEveryValueDoesSomething(t *testing.T) {
	for name, batch := range batches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents := []string{batch[0].with}
			for _, c := range batch {
				documents = append(documents, nested(c.path, c.value))
			}
			with, without := render(t, merged(t, documents...)), render(t, batch[0].with)
			checkAccepted(t, with)
			checkJobs(t, without, with)
			for _, c := range batch {
				if !strings.Contains(with.text, c.want) {
					t.Errorf("with %s=%s, %q is not in the objects", c.path, c.value, c.want)
				}
				if strings.Contains(without.text, c.want) {
					t.Errorf("without %s, %q is in the objects too", c.path, c.want)
				}
			}
		})
	}
}

// leaves adds the paths of all values to found. A list or an empty map counts as one value.
func leaves(path string, value any, found *[]string) {
	if values, ok := value.(map[string]any); ok && len(values) > 0 && !slices.Contains(opaque, path) {
		for key, value := range values {
			leaves(strings.TrimPrefix(path+"."+key, "."), value, found)
		}
		return
	}
	*found = append(*found, path)
}

// opaque has values that are maps but count as one value, because users replace them whole.
var opaque = []string{
	"aggregator.resources", "core.resources", "extensions.resources", "etcd.resources", "etcd.snapshots.resources", "certificates.resources",
	"search.database.postgres.resources", "console.resources", "metrics.dashboards.labels", "controllerManager.resources", "scheduler.resources",
	"konnectivity.server.resources", "konnectivity.agent.resources", "konnectivity.agent.nodeSelector",
}

// ofUpgrades are values that count only beside what runs. TestEtcdMovesByOneMinorVersion sets them.
var ofUpgrades = []string{"etcd.downgradedTo"}

func TestEveryValueIsTried(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(data, &values))
	var have []string
	leaves("", values, &have)
	tried := slices.Clone(ofUpgrades)
	for _, c := range allChanges() {
		tried = append(tried, c.path)
	}
	slices.Sort(have)
	slices.Sort(tried)
	for _, path := range have {
		assert.Contains(t, tried, path, "%s is in values.yaml, but no test sets it", path)
	}
	for _, path := range tried {
		assert.Contains(t, have, path, "a test sets %s, which is not in values.yaml", path)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"core: {replica: 3}":   "additional properties 'replica' not allowed",
		"cores: {replicas: 3}": "additional properties 'cores' not allowed",
		"etcd: {snapshots: {enabled: true, volume: {emptyDir: {}}, s3: {bucket: backups}}}": "cannot both be given",
		"etcd: {snapshots: {s3: {endpoint: 'https://user:password@s3.example.com'}}}":       "at '/etcd/snapshots/s3/endpoint'",
		"etcd: {snapshots: {s3: {bucket: Backups}}}":                                        "at '/etcd/snapshots/s3/bucket'",
		"etcd: {restore: {snapshot: 'folder/one.db'}}":                                      "at '/etcd/restore/snapshot'",
		"etcd: {replicas: 2}":                                                        "at '/etcd/replicas': value must be one of 1, 3, 5",
		"etcd: {downgradedTo: v3.6}":                                                 "at '/etcd/downgradedTo'",
		"etcd: {mode: per-service}":                                                  "at '/etcd/mode': value must be one of",
		"certificates: {provider: vault}":                                            "at '/certificates/provider'",
		"core: {extraArgs: [v=4]}":                                                   "at '/core/extraArgs/0'",
		"core: {resources: {limit: {memory: 1Gi}}}":                                  "additional properties 'limit' not allowed",
		"core: {autoscaling: {averageCPU: 1 core}}":                                  "at '/core/autoscaling/averageCPU'",
		"authorization: {modes: []}":                                                 "at '/authorization/modes': minItems: got 0, want 1",
		"metrics: {prometheusRule: {objectives: {reads: 100}}}":                      "at '/metrics/prometheusRule/objectives/reads'",
		"authorization: {modes: null}":                                               "authorization.modes is needed",
		"authorization: {modes: [Rbac]}":                                             "at '/authorization/modes/0'",
		"audit: {log: {path: /tmp/audit.log}}":                                       "at '/audit/log/path'",
		"audit: {policy: {rules: []}}":                                               "at '/audit/policy'",
		"services: {wardle: {}}":                                                     "at '/services/wardle': missing property 'image'",
		"services: {wardle: {image: {tag: v1}}}":                                     "missing property 'repository'",
		"services: {core: {image: {repository: a}}}":                                 "invalid propertyName 'core'",
		"services: {service-ca: {image: {repository: a}}}":                           "invalid propertyName 'service-ca'",
		"services: {War.dle: {image: {repository: a}}}":                              "invalid propertyName 'War.dle'",
		"services: {wardle: {image: {repository: a}, balance: best}}":                "at '/services/wardle/balance'",
		"services: {wardle: {image: {repository: a}, groups: [wardle]}}":             "at '/services/wardle/groups/0'",
		"services: {wardle: {image: {repository: a}, extraArgs: [--v=4]}}":           "additional properties 'extraArgs' not allowed",
		"search: {enabled: true, serve: {replicas: 2}}":                              "search.database.secret or search.database.postgres.enabled is needed",
		"search: {enabled: true, sync: {replicas: 1}}":                               "search.database.secret or search.database.postgres.enabled is needed",
		"search: {enabled: true, database: {secret: a, postgres: {enabled: true}}}":  "cannot both be given",
		"search: {enabled: true, serve: {replica: 2}}":                               "additional properties 'replica' not allowed",
		"console: {enabled: true}":                                                   "console.enabled needs search.enabled",
		"service: {externalTrafficPolicy: Local}":                                    "service.externalTrafficPolicy needs service.type NodePort or LoadBalancer, and that is ClusterIP",
		"service: {type: NodePort, loadBalancerSourceRanges: [192.0.2.0/24]}":        "service.loadBalancerSourceRanges needs service.type LoadBalancer, and that is NodePort",
		"service: {loadBalancerClass: a}":                                            "service.loadBalancerClass needs service.type LoadBalancer",
		"service: {nodePort: 30443}":                                                 "service.nodePort needs service.type NodePort or LoadBalancer",
		merged(t, withKonnectivity, "konnectivity: {service: {nodePort: 30132}}"):    "konnectivity.service.nodePort needs service.type NodePort or LoadBalancer",
		merged(t, withConsole, "console: {service: {externalTrafficPolicy: Local}}"): "console.service.externalTrafficPolicy needs console.service.type NodePort or LoadBalancer",
		merged(t, withConsole, "console: {service: {type: NodePort, loadBalancerSourceRanges: [192.0.2.0/24]}}"):                       "console.service.loadBalancerSourceRanges needs console.service.type LoadBalancer",
		merged(t, withConsole, "console: {service: {nodePort: 30444}}"):                                                                "console.service.nodePort needs console.service.type NodePort or LoadBalancer",
		"console: {hosts: ['https://console.example.com']}":                                                                            "at '/console/hosts/0'",
		"{search: {enabled: true}, console: {enabled: true, oidc: {enabled: true}}}":                                                   "console.oidc.issuerURL, or authentication.oidc.issuerURL, is needed",
		"{authentication: {oidc: {issuerURL: 'https://a'}}, search: {enabled: true}, console: {enabled: true, oidc: {enabled: true}}}": "clientID",
		"services: {console: {image: {repository: a}}}":                                                                                "invalid propertyName 'console'",
		"services: {controller-manager: {image: {repository: a}}}":                                                                     "invalid propertyName 'controller-manager'",
		"{join: {enabled: true}, controllerManager: {enabled: true}}":                                                                  "join.endpoint is needed",
		"join: {enabled: true, endpoint: 'https://a:443'}":                                                                             "at '/join/endpoint'",
		"advertise: {address: example.com}":                                                                                            "at '/advertise/address'",
		"services: {search-sync: {image: {repository: a}}}":                                                                            "invalid propertyName 'search-sync'",
		"etcd: {enabled: false}":                                                       "etcd.external.servers is needed",
		"authentication: {oidc: {issuerURL: 'https://a'}}":                             "authentication.oidc.clientID is needed",
		"encryption: {existingSecret: a, config: {apiVersion: a/v1, kind: A}}":         "cannot both be given",
		"etcd: {enabled: false, mode: perService, external: {servers: ['https://a']}}": "etcd.external.extensionsServers is needed",

		"konnectivity: {enabled: true, endpoint: 'a:8132'}":                                                                        "konnectivity.enabled needs join.enabled",
		"{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'a:443'}, konnectivity: {enabled: true}}":            "konnectivity.endpoint is needed",
		"{join: {enabled: true, endpoint: 'a:443'}, konnectivity: {enabled: true, endpoint: a}}":                                   "at '/konnectivity/endpoint'",
		"services: {konnectivity: {image: {repository: a}}}":                                                                       "invalid propertyName 'konnectivity'",
		"{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'a:443'}, authentication: {bootstrapTokens: false}}": "join.enabled needs authentication.bootstrapTokens",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if _, err := helmTemplate(t, values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		})
	}
}

func TestReplicasAreLeftToOthersWhereTheyAreNull(t *testing.T) {
	for _, values := range []string{"core: {replicas: null}", "core: {autoscaling: {enabled: true}}"} {
		for _, object := range render(t, values).objects {
			spec, _ := object.Object["spec"].(map[string]any)
			if _, set := spec["replicas"]; object.GetKind() == "Deployment" && set == (object.GetName() == "tripod-core") {
				t.Errorf("%s: replicas of %s set: %v", values, object.GetName(), set)
			}
		}
	}
}
