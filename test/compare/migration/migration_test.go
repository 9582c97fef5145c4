// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration has kube-controller-manager store objects anew, after the version or the key that they are stored by has changed,
// and demands of Tripod what kube-apiserver does.
package migration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

const (
	gates = "--feature-gates=StorageVersionMigrator=true"
	// objects is how many there are of each kind.
	objects = 20

	// otherVersion makes v2 of widgets the version that is stored.
	otherVersion = `[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`

	oldKey = `{keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}`
	newKey = `{keys: [{name: new, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}`
)

var definition = framework.CRD{
	Kind: "Widget", Schema: "{type: object, properties: {spec: {type: string}}}",
	MoreVersions: []string{"{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: string}}}}}"},
}.String()

// encryption has the keys of aescbc by which secrets are encrypted. The first is for writing.
const encryption = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [{resources: [secrets], providers: [%s]}]
`

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

func TestStoredObjectsAreMigrated(t *testing.T) {
	both.RunFresh(t, func(t *testing.T, env *framework.Environment, tripod bool) {
		file := filepath.Join(env.Dir, "encryption.yaml")
		writeKeys(t, file, oldKey)
		args := []string{gates, "--runtime-config=storagemigration.k8s.io/v1beta1=true", "--encryption-provider-config=" + file}
		server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: args})
		require.NoError(t, err)
		s := newSide(t, server)
		s.createAll(t)
		s.storedBy(t, "/registry/secrets/default/", "k8s:enc:aescbc:v1:old:")

		if _, err := s.dynamic.Resource(definitions).Patch(t.Context(), "widgets.example.com", types.JSONPatchType,
			[]byte(otherVersion), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		writeKeys(t, file, newKey, oldKey)
		require.NoError(t, server.Restart(t.Context(), args...))
		migrator := s.startMigrator(t, env)
		s.migrate(t, "secrets", metav1.GroupResource{Resource: "secrets"})
		s.migrate(t, "widgets", metav1.GroupResource{Group: "example.com", Resource: "widgets"})
		s.storedBy(t, "/registry/secrets/default/", "k8s:enc:aescbc:v1:new:")
		s.storedBy(t, "/registry/example.com/widgets/default/", `{"apiVersion":"example.com/v2"`)
		s.onlyVersionIs(t, "v2")

		require.NoError(t, migrator.Stop())
		// The old key is needed no longer.
		writeKeys(t, file, newKey)
		require.NoError(t, server.Restart(t.Context(), args...))
		s.unchanged(t)
	})
}

// side is one of the two that are compared.
type side struct {
	server  *framework.Stock
	client  kubernetes.Interface
	dynamic dynamic.Interface
	etcd    *clientv3.Client
}

func newSide(t *testing.T, server *framework.Stock) *side {
	t.Helper()
	s := &side{server: server, etcd: framework.Etcd(t, server.EtcdURL)}
	var err error
	if s.client, err = kubernetes.NewForConfig(server.Admin()); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(server.Admin()); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, server.Create(t.Context(), definition))
	return s
}

func name(i int) string { return fmt.Sprintf("object-%d", i) }

func (s *side) createAll(t *testing.T) {
	t.Helper()
	for i := range objects {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, StringData: map[string]string{"said": name(i)}}
		if _, err := s.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name(i)}, "spec": name(i),
		}}
		if _, err := s.dynamic.Resource(widgets).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// unchanged demands that all objects can be read and are what they were.
func (s *side) unchanged(t *testing.T) {
	t.Helper()
	for i := range objects {
		secret, err := s.client.CoreV1().Secrets("default").Get(t.Context(), name(i), metav1.GetOptions{})
		if err != nil || string(secret.Data["said"]) != name(i) {
			t.Errorf("secret %s: %v %v", name(i), secret.Data, err)
		}
		widget, err := s.dynamic.Resource(widgets).Namespace("default").Get(t.Context(), name(i), metav1.GetOptions{})
		if err != nil {
			t.Errorf("widget %s: %v", name(i), err)
		} else if widget.Object["spec"] != name(i) {
			t.Errorf("widget %s: %v", name(i), widget)
		}
	}
}

// startMigrator starts the controllers that have part in migrations: it needs the garbage collector's view of objects.
func (s *side) startMigrator(t *testing.T, env *framework.Environment) *framework.Process {
	t.Helper()
	process, err := env.Start(framework.Command{
		Name: "kube-controller-manager", Path: env.Binary("test-assets/kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + s.server.Kubeconfig, gates, "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials=true", "--service-account-private-key-file=" + filepath.Join(s.server.PKI, "sa.key"),
			"--controllers=serviceaccount-controller,serviceaccount-token-controller,garbage-collector-controller,storage-version-migrator-controller",
		},
	})
	require.NoError(t, err)
	return process
}

// migrate asks for a migration and waits until it has succeeded.
func (s *side) migrate(t *testing.T, name string, resource metav1.GroupResource) {
	t.Helper()
	migrations := s.client.StoragemigrationV1beta1().StorageVersionMigrations()
	if _, err := migrations.Create(t.Context(), &storagemigrationv1beta1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagemigrationv1beta1.StorageVersionMigrationSpec{Resource: resource},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, name+" are migrated", func(ctx context.Context) error {
		migration, err := migrations.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range migration.Status.Conditions {
			if condition.Type == string(storagemigrationv1beta1.MigrationSucceeded) && condition.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("status: %+v", migration.Status)
	})
}

// storedBy demands that all values under a prefix begin with this.
func (s *side) storedBy(t *testing.T, prefix, want string) {
	t.Helper()
	stored, err := framework.Stored(t.Context(), s.etcd, prefix)
	require.NoError(t, err)
	if len(stored) < objects {
		t.Errorf("%s has %d values", prefix, len(stored))
	}
	for key, value := range stored {
		if !bytes.HasPrefix(value, []byte(want)) {
			t.Errorf("%s is stored as %.60q, want %s", key, value, want)
		}
	}
}

// onlyVersionIs waits until the status of the definition of widgets lists no other stored version.
func (s *side) onlyVersionIs(t *testing.T, version string) {
	t.Helper()
	framework.Eventually(t, "widgets are stored as "+version, func(ctx context.Context) error {
		object, err := s.dynamic.Resource(definitions).Get(ctx, "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		versions, _, err := unstructured.NestedStringSlice(object.Object, "status", "storedVersions")
		if err == nil && strings.Join(versions, ",") != version {
			err = fmt.Errorf("its stored versions are %v", versions)
		}
		return err
	})
}

func writeKeys(t *testing.T, file string, keys ...string) {
	t.Helper()
	providers := make([]string, 0, len(keys))
	for _, key := range keys {
		providers = append(providers, "{aescbc: "+key+"}")
	}
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, encryption, strings.Join(providers, ", ")), 0o600))
}
