// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kmsplugin "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v2"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// before and after are the file of --encryption-provider-config with other keys. Each of the three services stores something by
// a key of the file and, but for the aggregator, by the plugin. AESCBC and SECRETBOX are keys, and SOCKET is the plugin's.
const (
	before = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, widgets.example.com, apiservices.apiregistration.k8s.io]
  providers:
  - aescbc: {keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
- resources: [configmaps, gadgets.example.com]
  providers:
  - kms: {apiVersion: v2, name: plugin, endpoint: "unix://SOCKET"}
  - identity: {}
`
	after = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, widgets.example.com, apiservices.apiregistration.k8s.io]
  providers:
  - secretbox: {keys: [{name: new, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}
  - aescbc: {keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
- resources: [configmaps, gadgets.example.com]
  providers:
  - kms: {apiVersion: v2, name: plugin, endpoint: "unix://SOCKET"}
  - identity: {}
`
	byOldKey = "k8s:enc:aescbc:v1:old:"
	byNewKey = "k8s:enc:secretbox:v1:new:"
	byKMS    = "k8s:enc:kms:v2:plugin:"

	healthOfKMS = "/readyz/kms-providers"
)

var definitions = framework.CRD{Kind: "Widget", Schema: framework.Data}.String() + "---\n" + framework.CRD{Kind: "Gadget", ClusterScoped: true, Schema: framework.Data}.String()

// kinds are the objects that are encrypted, with NAME for their names. The word "plainly" must be in none of their values.
var kinds = map[string]kind{
	"secret": {
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: NAME, namespace: default}, stringData: {said: plainly}}`,
		path:     "/api/v1/namespaces/default/secrets", key: "/registry/secrets/default/NAME", by: byOldKey, then: byNewKey,
	},
	"configmap": {
		manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: default}, data: {said: plainly}}`,
		path:     "/api/v1/namespaces/default/configmaps", key: "/registry/configmaps/default/NAME", by: byKMS, then: byKMS,
	},
	"widget": {
		manifest: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: NAME, namespace: default}, data: {said: plainly}}`,
		path:     "/apis/example.com/v1/namespaces/default/widgets", key: "/registry/example.com/widgets/default/NAME", by: byOldKey, then: byNewKey,
	},
	"gadget": {
		manifest: `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: NAME}, data: {said: plainly}}`,
		path:     "/apis/example.com/v1/gadgets", key: "/registry/example.com/gadgets/NAME", by: byKMS, then: byKMS,
	},
	"apiservice": {
		manifest: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.NAME, annotations: {said: plainly}},
			spec: {group: NAME, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: default, name: plainly}}}`,
		path: "/apis/apiregistration.k8s.io/v1/apiservices", prefix: "v1.",
		key: "/registry/apiregistration.k8s.io/apiservices/v1.NAME", by: byOldKey, then: byNewKey,
	},
}

type kind struct {
	manifest, path, key string
	// prefix is what the name in path has before NAME.
	prefix string
	// by and then are how it is stored before and after the keys have changed.
	by, then string
}

func TestEncryptionAtRest(t *testing.T) {
	both.RunFresh(t, func(t *testing.T, env *framework.Environment, tripod bool) {
		s := &side{file: filepath.Join(env.Dir, "encryption.yaml"), socket: filepath.Join(env.Dir, "kms.sock")}
		s.configure(t, before)
		plugin := kmsplugin.NewBase64Plugin(t, s.socket)
		s.start(t, env, tripod)

		s.createAll(t, "first.example.org")
		s.createAll(t, "second.example.org")
		s.configure(t, after) // will be noticed meanwhile

		plugin = s.withoutPlugin(t, plugin)
		s.rewriteAll(t, "first.example.org")
		for _, k := range kinds { // stored with the old key
			s.readable(t, k, "second.example.org")
		}
		s.rotatePluginKey(t, plugin)
	})
}

// withoutPlugin takes the plugin away and has another come.
func (s *side) withoutPlugin(t *testing.T, plugin *kmsplugin.Base64Plugin) *kmsplugin.Base64Plugin {
	s.healthIs(t, true)
	plugin.CleanUp()
	s.healthIs(t, false)
	// What was encrypted with the key of this run can be read, and others be written, for three minutes.
	for _, name := range []string{"configmap", "gadget"} {
		assert.NoError(t, s.create(t.Context(), kinds[name], "alone.example.org"))
		s.readable(t, kinds[name], "first.example.org")
	}
	// Liveness does not depend on it: a restart would make it worse.
	if code, body := s.get(t.Context(), "/livez"); code != 200 {
		t.Errorf("/livez without the plugin: %d %s", code, body)
	}
	plugin = kmsplugin.NewBase64Plugin(t, s.socket)
	s.healthIs(t, true)
	return plugin
}

// rotatePluginKey has the plugin encrypt with another key of its own, and objects that are written stored with that.
func (s *side) rotatePluginKey(t *testing.T, plugin *kmsplugin.Base64Plugin) {
	plugin.UpdateKeyID()
	for _, name := range []string{"configmap", "gadget"} {
		k := kinds[name]
		framework.Eventually(t, "the plugin's new key is used for a "+name, func(ctx context.Context) error {
			// A key is known to have changed when the plugin is asked for its health.
			s.get(ctx, healthOfKMS)
			if err := s.rewrite(ctx, k, "first.example.org"); err != nil {
				return err
			}
			stored, err := s.stored(ctx, k, "first.example.org")
			if err != nil {
				return err
			}
			if id := keyID(bytes.TrimPrefix(stored, []byte(byKMS))); id != "2" {
				return fmt.Errorf("it is stored with the plugin's key %q", id)
			}
			return nil
		})
		s.readable(t, k, "alone.example.org")
	}
}

// keyID returns the field key_id of a stored EncryptedObject of KMS v2, without that package's private type.
func keyID(message []byte) string {
	const fieldKeyID = 2
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ""
		}
		message = message[n:]
		if number == fieldKeyID {
			id, _ := protowire.ConsumeString(message)
			return id
		}
		n = protowire.ConsumeFieldValue(number, kind, message)
		if n < 0 {
			return ""
		}
		message = message[n:]
	}
	return ""
}

// createAll makes an object of each kind, which must be encrypted.
func (s *side) createAll(t *testing.T, name string) {
	t.Helper()
	for what, k := range kinds {
		require.NoError(t, errors.Join(s.create(t.Context(), k, name), s.storedBy(t.Context(), k, name, k.by)), what)
		s.readable(t, k, name)
	}
}

// rewriteAll updates objects without a change, which stores them with the new key when that is known.
func (s *side) rewriteAll(t *testing.T, name string) {
	t.Helper()
	for what, k := range kinds {
		framework.Eventually(t, "the new key is used for a "+what, func(ctx context.Context) error {
			return errors.Join(s.rewrite(ctx, k, name), s.storedBy(ctx, k, name, k.then))
		})
		s.readable(t, k, name)
	}
}

// storedBy returns nil when a value in etcd is encrypted in this way.
func (s *side) storedBy(ctx context.Context, k kind, name, by string) error {
	value, err := s.stored(ctx, k, name)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(value, []byte(by)) {
		return fmt.Errorf("%s is stored as %.60q, not by %s", name, value, by)
	}
	if bytes.Contains(value, []byte("plainly")) {
		return fmt.Errorf("%s is in etcd plainly: %q", name, value)
	}
	return nil
}

// object is what a manifest has.
func object(k kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal([]byte(strings.ReplaceAll(k.manifest, "NAME", name)), &object.Object)
}

// configure writes the file in one step, as the kubelet does.
func (s *side) configure(t *testing.T, configuration string) {
	t.Helper()
	next := s.file + ".next"
	require.NoError(t, os.WriteFile(next, []byte(strings.ReplaceAll(configuration, "SOCKET", s.socket)), 0o600))
	require.NoError(t, os.Rename(next, s.file))
}
