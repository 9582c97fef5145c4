// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/audit/policy"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"sigs.k8s.io/yaml"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

const (
	off = "off"
	on  = "on"

	notConfigured = "not configured"
)

// configScheme has the kinds of configuration files.
var configScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}()

// Files are options that name the files of a configuration. They are complete and valid.
type Files struct {
	Etcd      *genericoptions.EtcdOptions
	Audit     *genericoptions.AuditOptions
	Admission *genericoptions.AdmissionOptions
	// AuditSocket is where the audit log goes, if another process writes it.
	AuditSocket string
}

// Read returns what the files say now.
func (f Files) Read() (*backendv1.Configuration, error) {
	encryption, err := f.Encryption()
	if err != nil {
		return nil, err
	}
	audit, err := f.audit()
	if err != nil {
		return nil, err
	}
	admission, err := f.admission()
	if err != nil {
		return nil, err
	}
	return &backendv1.Configuration{Encryption: encryption, Audit: audit, Admission: admission}, nil
}

// Encryption returns what the encryption configuration says now.
func (f Files) Encryption() (map[string]string, error) {
	path := f.Etcd.EncryptionProviderConfigFilepath
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	described, err := describeEncryption(content)
	if err != nil {
		// Errors of the decoder may quote the file, which has keys.
		return nil, errors.New("--encryption-provider-config: " + path + " has no valid EncryptionConfiguration")
	}
	return described, nil
}

// describeEncryption says how an EncryptionConfiguration encrypts each resource that it names.
func describeEncryption(content []byte) (map[string]string, error) {
	decoded, _, err := serializer.NewCodecFactory(configScheme).UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := decoded.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %T", decoded)
	}
	if err := validation.ValidateEncryptionConfiguration(config, false).ToAggregate(); err != nil {
		return nil, err
	}
	described := map[string]string{}
	for _, part := range config.Resources {
		var providers []string
		for _, provider := range part.Providers {
			providers = append(providers, describeProvider(provider)...)
		}
		for _, resource := range part.Resources {
			if _, named := described[resource]; !named { // the first one counts
				described[resource] = strings.Join(providers, ",")
			}
		}
	}
	return described, nil
}

// describeProvider returns an entry for each key of the provider, or for the provider if it has none here.
func describeProvider(provider apiserver.ProviderConfiguration) (described []string) {
	keys := func(kind string, keys []apiserver.Key) {
		for _, key := range keys {
			described = append(described, kind+":"+key.Name+"#"+digestKey(key.Secret))
		}
	}
	switch {
	case provider.AESGCM != nil:
		keys("aesgcm", provider.AESGCM.Keys)
	case provider.AESCBC != nil:
		keys("aescbc", provider.AESCBC.Keys)
	case provider.Secretbox != nil:
		keys("secretbox", provider.Secretbox.Keys)
	case provider.KMS != nil:
		described = append(described, "kms-"+provider.KMS.APIVersion+":"+provider.KMS.Name)
	case provider.Identity != nil:
		described = append(described, "identity")
	}
	return described
}

// digestKey distinguishes keys of the same name. 32 bits reveal nothing about a random key, and of a guessed one less than any object that
// is  encrypted with it.
func digestKey(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("tripod.backend.v1.Configuration.encryption"))
	return short(mac.Sum(nil))
}

// withoutDigests returns a description of encryption as people may see it.
func withoutDigests(described string) string {
	providers := strings.Split(described, ",")
	for i, provider := range providers {
		providers[i], _, _ = strings.Cut(provider, "#")
	}
	return strings.Join(providers, ",")
}

func (f Files) audit() (string, error) {
	var to []string
	if f.Audit.LogOptions.Path != "" || f.AuditSocket != "" {
		to = append(to, "log")
	}
	if f.Audit.WebhookOptions.ConfigFile != "" {
		to = append(to, "webhook")
	}
	if f.Audit.PolicyFile == "" || len(to) == 0 {
		return off, nil
	}
	loaded, err := policy.LoadPolicyFromFile(f.Audit.PolicyFile)
	if err != nil {
		return "", fmt.Errorf("--audit-policy-file: %w", err)
	}
	encoded, err := json.Marshal(loaded)
	if err != nil {
		return "", err
	}
	return digest(encoded) + " to " + strings.Join(to, " and "), nil
}

func (f Files) admission() (map[string]string, error) {
	names := f.Admission.RecommendedPluginOrder
	configs, err := admission.ReadAdmissionConfiguration(names, f.Admission.ConfigFile, configScheme)
	if err != nil {
		return nil, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	isOff := sets.New(f.Admission.DisablePlugins...).Union(f.Admission.DefaultOffPlugins).Difference(sets.New(f.Admission.EnablePlugins...))
	described := make(map[string]string, len(names))
	for _, name := range names {
		if isOff.Has(name) {
			described[name] = off
			continue
		}
		described[name] = on
		config, err := configs.ConfigFor(name)
		if err != nil {
			return nil, fmt.Errorf("configuration of the admission plugin %s: %w", name, err)
		}
		if config == nil {
			continue
		}
		content, err := io.ReadAll(config)
		if err != nil {
			return nil, fmt.Errorf("configuration of the admission plugin %s: %w", name, err)
		}
		if canonical, err := yaml.YAMLToJSON(content); err == nil {
			content = canonical
		}
		described[name] = on + " with " + digest(content)
	}
	return described, nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return short(sum[:])
}

func short(sum []byte) string { return hex.EncodeToString(sum[:4]) }

// Kinds of differences of configurations.
const (
	Encryption = "encryption"
	Audit      = "audit"
	Admission  = "admission"
	Partitions = "partitions"
)

// Difference is one of two configurations.
type Difference struct {
	// Kind is Encryption, Audit, Admission or Partitions.
	Kind string
	// Message is for people. It has no secrets.
	Message string
}

// Compare says how two configurations differ, sorted. here and there name them. The encryption of a resource is compared if compared
// returns true for its name in the EncryptionConfiguration, such as secrets, *.apps or *.*. Admission plugins that one does not have are
// left out.
func Compare(here, there string, a, b *backendv1.Configuration, compared func(resource string) bool) (found []Difference) {
	differ := func(kind, what, a, b string) {
		if a != b {
			found = append(found, Difference{kind, fmt.Sprintf("%s is %s at %s and %s at %s", what, a, here, b, there)})
		}
	}
	for _, resource := range names(a.GetEncryption(), b.GetEncryption()) {
		if !compared(resource) {
			continue
		}
		ofA, ofB := a.GetEncryption()[resource], b.GetEncryption()[resource]
		shownA, shownB := withoutDigests(ofA), withoutDigests(ofB)
		if shownA == shownB && ofA != ofB {
			found = append(found, Difference{Encryption, fmt.Sprintf("encryption of %s is %s at %s and %s, with other keys of the same names",
				resource, shownA, here, there)})
			continue
		}
		differ(Encryption, "encryption of "+resource, cmp.Or(shownA, notConfigured), cmp.Or(shownB, notConfigured))
	}
	differ(Audit, "audit", a.GetAudit(), b.GetAudit())
	if a != nil && b != nil && a.Partitions != nil && b.Partitions != nil { // the others do not serve custom resources
		differ(Partitions, "the list of partitions", cmp.Or(a.GetPartitions(), "empty"), cmp.Or(b.GetPartitions(), "empty"))
	}
	for _, plugin := range names(a.GetAdmission(), b.GetAdmission()) {
		ofA, isA := a.GetAdmission()[plugin]
		ofB, isB := b.GetAdmission()[plugin]
		if isA && isB {
			differ(Admission, "admission plugin "+plugin, ofA, ofB)
		}
	}
	return found
}
