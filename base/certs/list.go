// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Info describes a certificate for people.
type Info struct {
	Name      string    `json:"name"`
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Authority bool      `json:"authority"`
	Hosts     []string  `json:"hosts,omitempty"`
	NotBefore time.Time `json:"notBefore"`
	Expires   time.Time `json:"expires"`
}

// Describe describes the certificates of a bundle. It numbers those after the first.
func Describe(name string, bundle []byte) []Info {
	var all []Info
	for i, cert := range certificates(bundle) {
		info := describe(cert)
		if info.Name = name; i > 0 {
			info.Name = fmt.Sprintf("%s[%d]", name, i)
		}
		all = append(all, info)
	}
	return all
}

func describe(cert *x509.Certificate) Info {
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	if cert.IsCA {
		hosts = nil // Kubernetes writes the common name there
	}
	return Info{
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), Authority: cert.IsCA, Hosts: hosts,
		NotBefore: cert.NotBefore, Expires: cert.NotAfter,
	}
}

// List describes the certificates of a directory.
func List(dir string) ([]Info, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+certExtension))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no certificates in %s", dir)
	}
	var all []Info
	for _, file := range files {
		bundle, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read certificate: %w", err)
		}
		all = append(all, Describe(strings.TrimSuffix(filepath.Base(file), certExtension), bundle)...)
	}
	Sort(all)
	return all, nil
}

// Sort sorts certificates by expiry, the earliest first.
func Sort(all []Info) {
	slices.SortStableFunc(all, func(a, b Info) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Name, b.Name)) })
}
