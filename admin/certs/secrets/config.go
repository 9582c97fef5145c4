// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/certs"
)

// Usages of certificates.
const (
	usageServer = "server"
	usageClient = "client"
)

// Config lists the Secrets to make.
type Config struct {
	Namespace string `json:"namespace"`
	// Labels are added to every Secret.
	Labels map[string]string `json:"labels,omitempty"`
	// Duration is how long certificates are valid, RenewBefore how long before their end they are renewed, and AuthorityDuration how long
	// authorities are valid.
	Duration          metav1.Duration `json:"duration,omitempty"`
	RenewBefore       metav1.Duration `json:"renewBefore,omitempty"`
	AuthorityDuration metav1.Duration `json:"authorityDuration,omitempty"`

	Authorities       []AuthorityConfig   `json:"authorities,omitempty"`
	Certificates      []CertificateConfig `json:"certificates,omitempty"`
	ServiceAccountKey *KeyConfig          `json:"serviceAccountKey,omitempty"`
	Kubeconfig        *KubeconfigConfig   `json:"kubeconfig,omitempty"`
}

// AuthorityConfig is a certificate authority.
type AuthorityConfig struct {
	Secret     string `json:"secret"`
	CommonName string `json:"commonName"`
	// ManualRotation means that only --renew-ca takes steps of a rotation, because a client that trusts the authority has to be restarted
	// or reconfigured between them.
	ManualRotation bool `json:"manualRotation,omitempty"`
}

// CertificateConfig is a certificate that an authority issues.
type CertificateConfig struct {
	Secret string `json:"secret"`
	// Authority is the name of the Secret of the authority.
	Authority     string   `json:"authority"`
	CommonName    string   `json:"commonName"`
	Organizations []string `json:"organizations,omitempty"`
	DNSNames      []string `json:"dnsNames,omitempty"`
	IPAddresses   []string `json:"ipAddresses,omitempty"`
	// Usages are server, client or both.
	Usages []string `json:"usages"`
}

// KeyConfig is a key that signs tokens.
type KeyConfig struct {
	Secret string `json:"secret"`
}

// KubeconfigConfig is a kubeconfig made from a client certificate, whose Secret others may make. It trusts the authorities in ca.crt of
// that Secret, so its maker needs no Secret with the key of an authority.
type KubeconfigConfig struct {
	Secret string `json:"secret"`
	// Key is the key in the Secret. Empty means kubeconfig.
	Key string `json:"key,omitempty"`
	// Name is the name of the context. Empty means tripod.
	Name   string `json:"name,omitempty"`
	Server string `json:"server"`
	// Client is the name of the Secret.
	Client string `json:"client"`
}

// Load reads a configuration from a YAML file.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if k := c.Kubeconfig; k != nil {
		if k.Key == "" {
			k.Key = "kubeconfig"
		}
		if k.Name == "" {
			k.Name = "tripod"
		}
	}
	return &c, nil
}

func (c *Config) validate() error {
	var errs []error
	if c.Namespace == "" {
		errs = append(errs, errors.New("namespace is missing"))
	}
	known := map[string]bool{}
	add := func(what, secret string) {
		switch {
		case secret == "":
			errs = append(errs, fmt.Errorf("%s: secret is missing", what))
		case known[secret]:
			errs = append(errs, fmt.Errorf("%s: the Secret %s is there twice", what, secret))
		}
		known[secret] = true
	}
	authorities := map[string]bool{}
	for i, authority := range c.Authorities {
		what := fmt.Sprintf("authorities[%d]", i)
		add(what, authority.Secret)
		authorities[authority.Secret] = true
		if authority.CommonName == "" {
			errs = append(errs, fmt.Errorf("%s: commonName is missing", what))
		}
	}
	for i, certificate := range c.Certificates {
		what := fmt.Sprintf("certificates[%d]", i)
		add(what, certificate.Secret)
		if !authorities[certificate.Authority] {
			errs = append(errs, fmt.Errorf("%s: there is no authority %q", what, certificate.Authority))
		}
		if _, err := certificate.leaf(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if c.ServiceAccountKey != nil {
		add("serviceAccountKey", c.ServiceAccountKey.Secret)
	}
	if k := c.Kubeconfig; k != nil {
		add("kubeconfig", k.Secret)
		if k.Server == "" || k.Client == "" {
			errs = append(errs, errors.New("kubeconfig: server or client is missing"))
		}
	}
	if lifetimes := c.lifetimes(); lifetimes.RenewBefore >= lifetimes.Leaf || lifetimes.Leaf > lifetimes.Authority {
		errs = append(errs, fmt.Errorf("renewBefore (%s) must be shorter than duration (%s), and that not longer than authorityDuration (%s)",
			lifetimes.RenewBefore, lifetimes.Leaf, lifetimes.Authority))
	}
	return errors.Join(errs...)
}

func (c *Config) lifetimes() certs.Lifetimes {
	return certs.Lifetimes{
		Authority: c.AuthorityDuration.Duration, Leaf: c.Duration.Duration, RenewBefore: c.RenewBefore.Duration,
	}.Defaulted()
}

// leaf returns the content of the certificate.
func (c *CertificateConfig) leaf() (certs.Leaf, error) {
	leaf := certs.Leaf{CommonName: c.CommonName, Organizations: c.Organizations, DNSNames: c.DNSNames,
		Server: slices.Contains(c.Usages, usageServer), Client: slices.Contains(c.Usages, usageClient)}
	if c.CommonName == "" {
		return leaf, errors.New("commonName is missing")
	}
	if len(c.Usages) == 0 {
		return leaf, errors.New("usages are missing: server, client or both")
	}
	for _, usage := range c.Usages {
		if usage != usageServer && usage != usageClient {
			return leaf, fmt.Errorf("usage %q is neither server nor client", usage)
		}
	}
	for _, address := range c.IPAddresses {
		ip := net.ParseIP(address)
		if ip == nil {
			return leaf, fmt.Errorf("%q is no IP address", address)
		}
		leaf.IPs = append(leaf.IPs, ip)
	}
	return leaf, nil
}
