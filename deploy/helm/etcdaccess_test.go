// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/admin/etcd/access/accesstest"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/etcd/embedded/embeddedtest"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// stored are directories in etcd by what is there.
var stored = map[string]string{
	"built-in": "/registry/secrets/", "definitions": "/registry/apiextensions.k8s.io/customresourcedefinitions/",
	"custom": "/registry/example.com/boats/", "flunders": "/registry/wardle.example.com/flunders/", "queries": "/services/search/search.example.com/queries/",
	"APIServices": "/registry/apiregistration.k8s.io/apiservices/", "cars": "/registry/shop.example.com/cars/",
}

// TestWhatAPodCanReadInEtcd makes the certificates of a release and its etcds. It tries with each certificate that a pod has what it can
// read, and then each RPC of etcd on keys and leases of others.
func TestWhatAPodCanReadInEtcd(t *testing.T) {
	all := []string{"APIServices", "built-in", "cars", "custom", "definitions", "flunders", "queries"}
	ofExtensions := []string{"custom", "definitions", "flunders"} // they have the prefix of custom resources
	ofShop := []string{"cars", "definitions"}                     // a partition only reads definitions
	for mode, want := range map[string]map[string][]string{
		"shared": {
			"core -> etcd": {"built-in"}, "extensions -> etcd": ofExtensions, "aggregator -> etcd": {"APIServices"},
			"wardle -> etcd": {"flunders"}, "search -> etcd": {"queries"}, "etcd-snapshot -> etcd": all, "etcd-access -> etcd": all, "etcd-defrag -> etcd": all,
			"extensions-shop -> etcd": ofShop,
		},
		"perService": {
			"core -> etcd": {"built-in"}, "aggregator -> etcd": {"APIServices"}, "extensions -> etcd-extensions": ofExtensions,
			"extensions-shop -> etcd-extensions": ofShop,
			"wardle -> etcd":                     {"flunders"}, "search -> etcd": {"queries"},
			"etcd-snapshot -> etcd": all, "etcd-access -> etcd": all, "etcd-defrag -> etcd": all,
			"etcd-extensions-snapshot -> etcd-extensions": all, "etcd-extensions-access -> etcd-extensions": all, "etcd-extensions-defrag -> etcd-extensions": all,
		},
		"partition": {
			"core -> etcd": {"built-in"}, "extensions -> etcd": ofExtensions, "aggregator -> etcd": {"APIServices"},
			"wardle -> etcd": {"flunders"}, "search -> etcd": {"queries"}, "etcd-snapshot -> etcd": all, "etcd-access -> etcd": all, "etcd-defrag -> etcd": all,
			"extensions-shop -> etcd": ofShop, "extensions-shop -> etcd-extensions-shop": ofShop,
			"etcd-extensions-shop-snapshot -> etcd-extensions-shop": all, "etcd-extensions-shop-access -> etcd-extensions-shop": all, "etcd-extensions-shop-defrag -> etcd-extensions-shop": all,
		},
	} {
		t.Run(mode, func(t *testing.T) {
			own := mode == "partition"
			r := render(t, "etcd: {mode: "+strings.Replace(mode, "partition", "shared", 1)+", snapshots: {enabled: true}}\n"+
				"services: {wardle: {image: {repository: a}, groups: [wardle.example.com]}, search: {image: {repository: a}}}\n"+
				"extensions: {partitions: {shop: {groups: [shop.example.com], etcd: {enabled: "+strconv.FormatBool(own)+"}}}}")
			var made secrets.Config
			require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &made))
			got := map[string][]string{}
			for _, etcd := range []string{"etcd", "etcd-extensions", "etcd-extensions-shop"} {
				issued := slices.DeleteFunc(slices.Clone(made.Certificates), func(c secrets.CertificateConfig) bool { return c.Authority != "tripod-"+etcd+"-ca" })
				if len(issued) == 0 {
					continue
				}
				clients := clientsOf(t, issued)
				options := access.Options{Prefix: "/registry", Progress: func(string) {}}
				var divided []string
				for _, p := range r.pods(t) {
					for _, arg := range p.spec.Containers[0].Args {
						if given, ok := strings.CutPrefix(arg, "--service="); ok && name(p) == etcd+"-access" {
							service, err := access.ParseService(given)
							require.NoError(t, err)
							options.Services = append(options.Services, service)
						}
						if given, ok := strings.CutPrefix(arg, "--extensions-partition="); ok && name(p) == etcd+"-access" {
							divided = append(divided, given)
						}
					}
				}
				var err error
				options.Partitions, err = partitions.Parse(divided)
				require.NoError(t, err)
				require.NoError(t, access.Apply(t.Context(), clients["tripod-"+etcd+"-client"], options))
				for _, p := range r.pods(t) {
					for _, secret := range p.secrets() {
						readable := readableBy(t, clients[secret])
						if len(readable) == 0 {
							continue
						}
						got[name(p)+" -> "+etcd] = readable
						if len(readable) < len(stored) {
							attack(t, clients["tripod-"+etcd+"-client"], clients[secret], "tripod-"+name(p), readable)
						}
					}
				}
			}
			assert.Equal(t, want, got)
		})
	}
}

// attack tries with the certificate of a service what it may not do.
func attack(t *testing.T, root, client *clientv3.Client, user string, readable []string) {
	t.Helper()
	target := accesstest.Target{User: user, Own: stored[readable[0]] + "own", Directory: "/registry/secrets/victim"}
	if slices.Contains(readable, "built-in") {
		target.Directory = "/registry/example.com/boats/victim"
	}
	target.Forbidden = target.Directory + "/a"
	var err error
	target.Lease, err = accesstest.Plant(t.Context(), root, target.Forbidden)
	require.NoError(t, err)
	allowed, err := accesstest.Allowed(t.Context(), client, target)
	require.NoError(t, err)
	expected, err := accesstest.Expected(t.Context(), client)
	require.NoError(t, err)
	assert.Equal(t, expected, allowed, "what etcd lets %s do", user)
	kept, err := root.Get(t.Context(), target.Forbidden)
	require.NoError(t, err)
	if assert.Len(t, kept.Kvs, 1, "%s removed a key", user) {
		assert.Equal(t, "secret", string(kept.Kvs[0].Value), "%s changed a key", user)
		assert.Equal(t, int64(target.Lease), kept.Kvs[0].Lease, "%s changed the lease of a key", user)
	}
}

// TestEtcdCompactsItself, because the users of services may not compact.
func TestEtcdCompactsItself(t *testing.T) {
	for _, p := range render(t, "services: {wardle: {image: {repository: a}, groups: [wardle.example.com]}}").pods(t) {
		args := p.spec.Containers[0].Args
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-certfile=") }) {
			assert.Contains(t, args, "--etcd-compaction-interval=0", name(p))
		}
		if name(p) == "etcd" {
			assert.Subset(t, args, []string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m"})
		}
	}
}

// TestEachMethodOfEtcdIsTried fails when a new version of etcd adds a method.
func TestEachMethodOfEtcdIsTried(t *testing.T) {
	assert.Empty(t, accesstest.Unclassified(), "methods of etcd that accesstest does not try")
}

// readableBy returns what a client can read. There may be no client.
func readableBy(t *testing.T, client *clientv3.Client) (readable []string) {
	t.Helper()
	if client == nil {
		return nil
	}
	for what, directory := range stored {
		if _, err := client.Get(t.Context(), directory, clientv3.WithPrefix()); err == nil {
			readable = append(readable, what)
		} else {
			require.ErrorContains(t, err, "permission denied")
		}
	}
	slices.Sort(readable)
	return readable
}

// clientsOf starts an etcd whose authority issues these certificates, and returns a client with each.
func clientsOf(t *testing.T, issued []secrets.CertificateConfig) map[string]*clientv3.Client {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	for _, c := range issued {
		_, err := ca.Ensure(c.Secret, certs.Leaf{
			CommonName: c.CommonName, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: slices.Contains(c.Usages, "server"), Client: slices.Contains(c.Usages, "client"),
		})
		require.NoError(t, err)
	}
	server := issued[slices.IndexFunc(issued, func(c secrets.CertificateConfig) bool { return strings.HasSuffix(c.Secret, "-server") })].Secret
	url, _ := embeddedtest.Start(t, embedded.Options{
		DataDir: t.TempDir(), CertFile: store.CertFile(server), KeyFile: store.KeyFile(server), TrustedCAFile: ca.File(),
	})
	clients := map[string]*clientv3.Client{}
	for _, c := range issued {
		client, err := access.Connect([]string{url}, ca.File(), store.CertFile(c.Secret), store.KeyFile(c.Secret))
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		clients[c.Secret] = client
	}
	require.NoError(t, access.Await(t.Context(), clients[server]))
	return clients
}

// TestOnlyAnAggregatorThatNeedsThemHasTheKeysOfEncryption renders configurations of encryption.
func TestOnlyAnAggregatorThatNeedsThemHasTheKeysOfEncryption(t *testing.T) {
	resources := func(list string) string {
		return "encryption: {config: {apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{resources: [" + list + "], providers: [{identity: {}}]}]}}"
	}
	for values, want := range map[string]bool{
		resources("secrets"): false, resources("secrets, '*.example.com', '*.'"): false,
		resources("secrets, '*.*'"): true, resources("apiservices.apiregistration.k8s.io"): true, resources("'*.apiregistration.k8s.io'"): true,
		"encryption: {existingSecret: keys}": true, "encryption: {existingSecret: keys, apiServices: false}": false,
	} {
		for _, p := range render(t, values).pods(t) {
			service := name(p)
			if !slices.Contains([]string{"aggregator", "core", "extensions"}, service) {
				continue
			}
			mounts := slices.ContainsFunc(p.secrets(), func(name string) bool { return name == "keys" || name == "tripod-encryption" })
			flag := slices.ContainsFunc(p.spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--encryption-provider-config=") })
			if want := want || service != "aggregator"; mounts != want || flag != want {
				t.Errorf("%s with %s: mounts %v, flag %v, want %v", service, values, mounts, flag, want)
			}
		}
	}
}

// TestTheFormerUserGoesWithTheLastReplicaThatUsesIt upgrades a release, which may have Deployments of a chart that had one user for all.
func TestTheFormerUserGoesWithTheLastReplicaThatUsesIt(t *testing.T) {
	own := func(component string) *appsv1.Deployment {
		d := find(t, render(t, ""), "Deployment", "tripod-"+component, &appsv1.Deployment{})
		d.Namespace, d.Generation = namespace, 3
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2}
		return d
	}
	for name, test := range map[string]struct {
		change func(core *appsv1.Deployment)
		want   string
	}{
		"all are replaced": {func(*appsv1.Deployment) {}, "--remove=tripod"},
		"scaled to none": {func(core *appsv1.Deployment) {
			core.Status = appsv1.DeploymentStatus{ObservedGeneration: 3}
		}, "--remove=tripod"},
		"rolled back": {func(core *appsv1.Deployment) {
			for _, volume := range core.Spec.Template.Spec.Volumes {
				for _, source := range ptr.Deref(volume.Projected, corev1.ProjectedVolumeSource{}).Sources {
					if source.Secret != nil && source.Secret.Name == "tripod-etcd-client-core" {
						source.Secret.Name = "tripod-etcd-client"
					}
				}
			}
		}, "--former=tripod"},
		"some are not replaced yet": {func(core *appsv1.Deployment) { core.Status.UpdatedReplicas = 1 }, "--former=tripod"},
		"nobody has seen it yet":    {func(core *appsv1.Deployment) { core.Generation = 4 }, "--former=tripod"},
		"none":                      {func(core *appsv1.Deployment) { core.Name = "other" }, "--former=tripod"},
	} {
		t.Run(name, func(t *testing.T) {
			core := own("core")
			test.change(core)
			cluster := clusterWith(t, own("aggregator"), core, own("extensions"))
			text, err := helmTemplate(t, "", "--is-upgrade", "--dry-run=server", "--kube-apiserver="+cluster)
			require.NoError(t, err)
			for _, argument := range []string{"--remove=tripod", "--former=tripod"} {
				assert.Equal(t, argument == test.want, strings.Contains(text, "- "+argument+"\n"), argument)
			}
		})
	}
}

// clusterWith returns the URL of a cluster that has these Deployments and StatefulSets, and nothing else.
func clusterWith(t *testing.T, objects ...metav1.Object) string {
	t.Helper()
	deployments := appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}}
	answers := map[string]any{
		"/version": version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0"},
		"/api":     metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{
			{GroupVersion: "apps/v1", Version: "v1"}}}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true}}},
		"/apis/apps/v1": metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true}, {Name: "statefulsets", Kind: "StatefulSet", Namespaced: true}}},
	}
	const directory = "/apis/apps/v1/namespaces/" + namespace
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.Deployment:
			deployments.Items = append(deployments.Items, *object)
			answers[directory+"/deployments/"+object.Name] = object
		case *appsv1.StatefulSet:
			answers[directory+"/statefulsets/"+object.Name] = object
		case *corev1.ConfigMap:
			answers["/api/v1/namespaces/"+namespace+"/configmaps/"+object.Name] = object
		case *corev1.PersistentVolumeClaim:
			answers["/api/v1/namespaces/"+namespace+"/persistentvolumeclaims/"+object.Name] = object
		}
	}
	answers[directory+"/deployments"] = deployments
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
