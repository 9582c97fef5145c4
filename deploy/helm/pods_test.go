// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
)

func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &p.meta, &p.spec))
			if !result.Allowed {
				t.Errorf("%s: %s", p.owner, result.ForbiddenDetail())
			}
			for _, container := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
					t.Errorf("%s: %s can write to its root file system", p.owner, container.Name)
				}
			}
		}
	})
}

// mayAskTheCluster has the components whose pods need the API of the cluster in which the chart is installed.
var mayAskTheCluster = []string{"certificates", "cleanup"}

func TestPodsHaveNoTokens(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			component := p.meta.Labels["app.kubernetes.io/component"]
			want := slices.Contains(mayAskTheCluster, component)
			if got := p.spec.AutomountServiceAccountToken; got == nil || *got != want {
				t.Errorf("%s: automountServiceAccountToken is %v, want %v", p.owner, ptr.Deref(got, true), want)
			}
			if links := p.spec.EnableServiceLinks; links == nil || *links {
				t.Errorf("%s gets the Services of its namespace as environment variables", p.owner)
			}
			account := find(t, r, "ServiceAccount", p.spec.ServiceAccountName, &corev1.ServiceAccount{})
			if mount := account.AutomountServiceAccountToken; mount == nil || *mount {
				t.Errorf("ServiceAccount %s gives its token to every pod", account.Name)
			}
		}
	})
}

func TestOnlyWhoNeedsAKeyHasIt(t *testing.T) {
	keys := map[string][]string{
		"aggregator": {"aggregator", "front-proxy-client", "apiserver", "etcd-client-aggregator", "konnectivity"},
		"core":       {"core", "front-proxy-client", "kubelet-client", "service-account", "etcd-client-core", "konnectivity"},
		"extensions": {"extensions", "etcd-client-extensions", "etcd-extensions-client-extensions", "konnectivity"},
		// It has the user of etcd of its own.
		"extensions-crossplane": {"extensions-crossplane", "etcd-extensions-client-extensions-crossplane"},
		"wardle":                {"wardle", "etcd-client-wardle"},
		"search":                {"search", "search-database-client"},
		"search-sync":           {"search", "search-database-client"},
		"search-database":       {"search-database-server"},
		"etcd":                  {"etcd-server", "etcd-extensions-server"},
		// It signs the certificates of kubelets and the tokens of ServiceAccounts.
		"controller-manager": {"controller-manager", "service-account", "ca"},
		"scheduler":          {"scheduler"},
		"console":            {"console"},
	}
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			if !p.serves() {
				continue
			}
			component := p.meta.Labels["app.kubernetes.io/component"]
			for _, secret := range p.secrets() {
				name, ours := strings.CutPrefix(secret, "tripod-")
				if ours && name != "encryption" && !slices.Contains(keys[component], name) {
					t.Errorf("%s mounts Secret %s and does not need it", p.owner, secret)
				}
			}
		}
	})
}

// TestPrivateKeysAreForTheirPodAlone checks that files of Secrets are not for all users, and that a service has no key that it does not name.
func TestPrivateKeysAreForTheirPodAlone(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			for _, volume := range p.spec.Volumes {
				assert.Nil(t, volume.HostPath, "%s mounts %s of the node", p.owner, volume.Name)
				mode, paths := secretFiles(&volume)
				assert.Zero(t, mode&0o007, "%s: everybody may read %s", p.owner, volume.Name)
				for _, container := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
					for _, mount := range container.VolumeMounts {
						for _, path := range paths {
							if file := mount.MountPath + "/" + path; mount.Name == volume.Name && strings.HasSuffix(path, ".key") {
								assert.Contains(t, strings.Join(slices.Concat(container.Command, container.Args), "\n"), "="+file, "%s: %s", p.owner, container.Name)
							}
						}
					}
				}
			}
		}
	})
}

// secretFiles returns the mode of the files of a volume with Secrets, and their paths if the volume names them.
func secretFiles(volume *corev1.Volume) (mode int32, paths []string) {
	var items []corev1.KeyToPath
	switch {
	case volume.Secret != nil:
		mode, items = ptr.Deref(volume.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode), volume.Secret.Items
	case volume.Projected != nil:
		mode = ptr.Deref(volume.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				items = append(items, source.Secret.Items...)
			}
		}
	}
	for _, item := range items {
		mode |= ptr.Deref(item.Mode, 0)
		paths = append(paths, item.Path)
	}
	return mode, paths
}

func TestOnlyTheAggregatorHasTheFrontProxyKey(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			for _, volume := range p.spec.Volumes {
				if volume.Projected == nil {
					continue
				}
				for _, source := range volume.Projected.Sources {
					if source.Secret == nil || !strings.HasSuffix(source.Secret.Name, "-front-proxy-client") {
						continue
					}
					key := slices.ContainsFunc(source.Secret.Items, func(item corev1.KeyToPath) bool { return item.Key == corev1.TLSPrivateKeyKey })
					assert.Equal(t, p.meta.Labels["app.kubernetes.io/component"] == "aggregator", key, "%s has the key", p.owner)
					assert.NotEmpty(t, source.Secret.Items, "%s has a part of the Secret", p.owner)
				}
			}
		}
	})
}

// cert-manager makes the authorities. Of what it makes, the Jobs need the certificate in the kubeconfig.
func TestWithCertManagerNobodyReadsTheKeyOfAnAuthority(t *testing.T) {
	r := render(t, withManager)
	var readable []string
	for _, object := range r.objects {
		if object.GetKind() != "Role" {
			continue
		}
		role := find(t, r, "Role", object.GetName(), &rbacv1.Role{})
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "secrets") && slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "create" && verb != "delete" }) {
				require.NotEmpty(t, rule.ResourceNames, "Role %s names the Secrets of %v", role.Name, rule.Verbs)
				readable = append(readable, rule.ResourceNames...)
			}
		}
	}
	slices.Sort(readable)
	assert.Equal(t, []string{"tripod-admin", "tripod-kubeconfig"}, slices.Compact(readable))
}

func TestEachEtcdHasKeysOfItsOwn(t *testing.T) {
	r := render(t, "etcd: {mode: perService, snapshots: {enabled: true}}")
	keys := map[string]string{
		"aggregator": "etcd-client-aggregator", "core": "etcd-client-core", "etcd": "etcd-server", "etcd-snapshot": "etcd-client",
		"extensions": "etcd-extensions-client-extensions", "etcd-extensions": "etcd-extensions-server", "etcd-extensions-snapshot": "etcd-extensions-client",
	}
	for _, p := range r.pods(t) {
		want, ok := keys[name(p)]
		if !ok {
			continue
		}
		delete(keys, name(p))
		if got := slices.DeleteFunc(p.secrets(), func(name string) bool { return !strings.HasPrefix(name, "tripod-etcd-") }); !slices.Equal(got, []string{"tripod-" + want}) {
			t.Errorf("%s mounts the etcd keys %v, want tripod-%s", p.owner, got, want)
		}
	}
	for missing := range keys {
		t.Errorf("the release has no %s", missing)
	}
	var config secrets.Config
	if err := yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Certificates {
		etcd, _, _ := strings.Cut(strings.TrimSuffix(c.Secret, "-server"), "-client")
		if strings.HasPrefix(c.Secret, "tripod-etcd") && c.Authority != etcd+"-ca" {
			t.Errorf("%s is issued by %s, the authority of another etcd", c.Secret, c.Authority)
		}
	}
}

func TestOnlyTheAdministratorIsInSystemMasters(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		var all secrets.Config
		if err := yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &all); err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Certificates {
			if masters := slices.Contains(c.Organizations, user.SystemPrivilegedGroup); masters != (c.Secret == "tripod-admin") {
				t.Errorf("%s is of %v", c.Secret, c.Organizations)
			}
		}
	})
}

// secrets returns the names of the Secrets that a pod mounts.
func (p pod) secrets() []string {
	var names []string
	for _, volume := range p.spec.Volumes {
		if volume.Secret != nil {
			names = append(names, volume.Secret.SecretName)
		}
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				names = append(names, source.Secret.Name)
			}
		}
	}
	return names
}

func TestPodsSayWhatTheyNeed(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			for _, container := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				requests, limits := container.Resources.Requests, container.Resources.Limits
				if requests.Cpu().IsZero() || requests.Memory().IsZero() || limits.Memory().IsZero() || !limits.Cpu().IsZero() {
					t.Errorf("%s: %s must request processor and memory, and limit only memory", p.owner, container.Name)
				}
				if !p.serves() {
					continue
				}
				// A service is ready without the server of konnectivity beside it.
				ready := container.ReadinessProbe != nil || container.Name == "konnectivity-server"
				if container.StartupProbe == nil || !ready || container.LivenessProbe == nil {
					t.Errorf("%s: %s lacks a probe", p.owner, container.Name)
				}
				inGo := container.Name != "postgres"
				if inGo && !slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "GOMEMLIMIT" }) {
					t.Errorf("%s: %s lacks GOMEMLIMIT", p.owner, container.Name)
				}
			}
			if p.serves() && len(p.spec.TopologySpreadConstraints) == 0 {
				t.Errorf("%s lacks topology spread constraints", p.owner)
			}
		}
	})
}

func TestGracePeriodsAreLongEnoughToDrain(t *testing.T) {
	r := render(t, `
core: {shutdown: {delay: 40, watches: 20, requests: 7}}
extensions: {shutdown: {delay: 1, watches: 2, requests: 3}}`)
	want := map[string]struct {
		seconds int64
		delay   string
	}{
		"core": {67, "--shutdown-delay-duration=40s"}, "extensions": {6, "--shutdown-delay-duration=1s"}, "aggregator": {50, "--shutdown-delay-duration=10s"},
	}
	for _, p := range r.pods(t) {
		w, ok := want[p.spec.Containers[0].Name]
		if !ok {
			continue
		}
		if got := *p.spec.TerminationGracePeriodSeconds; got != w.seconds {
			t.Errorf("%s: the grace period is %d, want %d", p.owner, got, w.seconds)
		}
		if !slices.Contains(p.spec.Containers[0].Args, w.delay) {
			t.Errorf("%s lacks %s", p.owner, w.delay)
		}
	}
}

// TestEveryPodOfAServiceIsFound checks that each Service selects the pods of exactly one object, and ports that these have. The servers of konnectivity
// are beside several services.
func TestEveryPodOfAServiceIsFound(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, object := range r.objects {
			if object.GetKind() != "Service" {
				continue
			}
			service := find(t, r, "Service", object.GetName(), &corev1.Service{})
			found := 0
			for _, p := range r.pods(t) {
				if p.serves() && matches(service.Spec.Selector, p.meta.Labels) {
					found++
					for _, port := range service.Spec.Ports {
						containers := slices.Concat(p.spec.Containers, p.spec.InitContainers)
						if !slices.ContainsFunc(containers, func(c corev1.Container) bool { return listens(c, port.TargetPort.StrVal) }) {
							t.Errorf("Service %s uses port %s, which %s lacks", service.Name, port.TargetPort.StrVal, p.owner)
						}
					}
				}
			}
			want := 1
			if service.Name == "tripod-konnectivity" {
				want = len(services)
			}
			assert.Equal(t, want, found, "Service %s selects the pods of %d objects", service.Name, found)
		}
	})
}

func listens(c corev1.Container, port string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}
