// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/sets"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

const (
	oneKey   = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	otherKey = "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg="

	encryptionFile = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, widgets.example.com]
  providers:
  - aescbc: {keys: [{name: new, secret: ` + oneKey + `}, {name: old, secret: ` + otherKey + `}]}
  - identity: {}
- resources: [secrets, "*.apps"]
  providers:
  - kms: {apiVersion: v2, name: vault, endpoint: unix:///tmp/kms.sock}
`
	policyFile    = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	admissionFile = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- {name: A, path: a.yaml}
- {name: B, configuration: {apiVersion: example.com/v1, kind: X, limit: 1}}
`
)

// write writes a file of that name in a new directory, unless the content is empty.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	if content == "" {
		return ""
	}
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// files are those of a service with plugins A, B and C, of which C is off by default.
func files(t *testing.T, encryption, policy, admission string) Files {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "limit: 1\n")
	f := Files{
		Etcd:  genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil)),
		Audit: genericoptions.NewAuditOptions(),
		Admission: &genericoptions.AdmissionOptions{
			RecommendedPluginOrder: []string{"A", "B", "C"}, DefaultOffPlugins: sets.New("C"), ConfigFile: write(t, dir, "admission.yaml", admission),
		},
	}
	f.Etcd.EncryptionProviderConfigFilepath = write(t, dir, "encryption.yaml", encryption)
	f.Audit.PolicyFile = write(t, dir, "policy.yaml", policy)
	f.Audit.LogOptions.Path = "/var/log/audit"
	return f
}

func read(t *testing.T, f Files) *backendv1.Configuration {
	t.Helper()
	c, err := f.Read()
	require.NoError(t, err)
	return c
}

func TestConfigurationIsWhatTheFilesSay(t *testing.T) {
	c := read(t, files(t, encryptionFile, policyFile, admissionFile))
	shown := map[string]string{}
	for resource, described := range c.GetEncryption() {
		shown[resource] = withoutDigests(described)
	}
	assert.Equal(t, map[string]string{
		"secrets": "aescbc:new,aescbc:old,identity", "widgets.example.com": "aescbc:new,aescbc:old,identity", "*.apps": "kms-v2:vault",
	}, shown)
	assert.NotContains(t, c.String(), oneKey[:8])
	assert.Regexp(t, "^[0-9a-f]{8} to log$", c.GetAudit())
	assert.Equal(t, off, c.GetAdmission()["C"])
	assert.Regexp(t, "^on with [0-9a-f]{8}$", c.GetAdmission()["A"])

	none := files(t, "", "", "")
	none.Admission.EnablePlugins, none.Admission.DisablePlugins = []string{"C"}, []string{"A"}
	c = read(t, none)
	assert.Empty(t, c.GetEncryption())
	assert.Equal(t, off, c.GetAudit(), "without a policy")
	assert.Equal(t, map[string]string{"A": off, "B": on, "C": on}, c.GetAdmission())
}

func TestErrorsDoNotQuoteTheKeys(t *testing.T) {
	for _, broken := range []string{
		strings.Replace(encryptionFile, "name: old", "name: [old", 1),
		strings.Replace(encryptionFile, "identity: {}", "unknown: {}", 1),
		strings.Replace(encryptionFile, oneKey, oneKey+"=", 1),
	} {
		_, err := files(t, broken, "", "").Read()
		require.Error(t, err)
		assert.NotContains(t, err.Error(), oneKey[:8])
	}
}

func TestCompare(t *testing.T) {
	all := func(string) bool { return true }
	was := read(t, files(t, encryptionFile, policyFile, admissionFile))
	for _, tc := range []struct {
		name                          string
		encryption, policy, admission string
		change                        func(*Files)
		compared                      func(string) bool
		kind, want                    string
	}{
		{name: "the same"},
		{name: "comments", policy: "# why\n" + policyFile, admission: "# why\n" + admissionFile, encryption: "# why\n" + encryptionFile},
		{name: "a configuration in a file, with comments", change: func(f *Files) {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(f.Admission.ConfigFile), "a.yaml"), []byte("# why\n\"limit\": 1\n"), 0o600))
		}},
		{
			name: "in clear", change: func(f *Files) { f.Etcd.EncryptionProviderConfigFilepath = "" }, compared: func(r string) bool { return r == "secrets" },
			kind: Encryption, want: "encryption of secrets is aescbc:new,aescbc:old,identity at a and not configured at b",
		},
		{
			name: "another key of the same name", encryption: strings.Replace(encryptionFile, oneKey, otherKey, 1), compared: func(r string) bool { return r == "secrets" },
			kind: Encryption, want: "encryption of secrets is aescbc:new,aescbc:old,identity at a and b, with other keys of the same names",
		},
		{name: "of what is not compared", encryption: strings.Replace(encryptionFile, oneKey, otherKey, 1), compared: func(string) bool { return false }},
		{name: "another policy", policy: strings.Replace(policyFile, "Metadata", "Request", 1), kind: Audit},
		{name: "no audit", change: func(f *Files) { f.Audit.LogOptions.Path = "" }, kind: Audit},
		{name: "the log of another process", change: func(f *Files) { f.Audit.LogOptions.Path, f.AuditSocket = "", "/socket" }},
		{name: "events go elsewhere", change: func(f *Files) { f.Audit.LogOptions.Path, f.Audit.WebhookOptions.ConfigFile = "", "/config" }, kind: Audit},
		{
			name: "a plugin", change: func(f *Files) { f.Admission.EnablePlugins = []string{"C"} },
			kind: Admission, want: "admission plugin C is off at a and on at b",
		},
		{name: "a plugin that one does not have", change: func(f *Files) { f.Admission.RecommendedPluginOrder = []string{"A", "B", "D"} }},
		{name: "the configuration of a plugin", admission: strings.Replace(admissionFile, "limit: 1", "limit: 2", 1), kind: Admission},
		{name: "the file of a plugin", change: func(f *Files) {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(f.Admission.ConfigFile), "a.yaml"), []byte("limit: 2\n"), 0o600))
		}, kind: Admission},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := files(t, cmp.Or(tc.encryption, encryptionFile), cmp.Or(tc.policy, policyFile), cmp.Or(tc.admission, admissionFile))
			if tc.change != nil {
				tc.change(&f)
			}
			if tc.compared == nil {
				tc.compared = all
			}
			found := Compare("a", "b", was, read(t, f), tc.compared)
			if tc.kind == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Equal(t, tc.kind, found[0].Kind)
			if tc.want != "" {
				assert.Equal(t, tc.want, found[0].Message)
			}
		})
	}
}
