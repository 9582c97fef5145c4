// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// aged is the age of the certificates when a cluster starts. A new certificate would be invalid for a clock that is an hour slow.
const aged = 2 * time.Hour

// The names of authorities.
const (
	clientCA     = "ca"
	frontProxyCA = "front-proxy-ca"
	serviceCA    = "service-ca"
	// serverCA issues the certificates of the servers that clients reach. At first it is a copy of the client CA.
	serverCA = "server-ca"
)

// authorityOf has the directory of each root authority.
var authorityOf = map[string]string{
	clientCA: clientCA, frontProxyCA: frontProxyCA, serviceCA: serviceCA, serverCA: serverCA,
	"apiserver": serverCA, "admin": clientCA, "kubelet-client": clientCA, "front-proxy-client": frontProxyCA,
	"core": serviceCA, "extensions": serviceCA, "aggregator": serviceCA,
}

// prepareCertificates makes all certificates of a directory older. It gives servers an authority of their own, so that they keep it when the client
// CA is replaced.
func prepareCertificates(dir string) error {
	for _, extension := range []string{".crt", ".key"} {
		content, err := os.ReadFile(filepath.Join(dir, clientCA+extension))
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(dir, serverCA+extension), content); err != nil {
			return err
		}
	}
	return age(dir)
}

// age makes all certificates of a directory older.
func age(dir string) error {
	for name := range authorityOf {
		if _, err := os.Stat(filepath.Join(dir, name+".crt")); err != nil {
			continue // stock has no service CA
		}
		if err := issueAgain(dir, name, time.Now().Add(-aged), time.Now().AddDate(1, 0, 0)); err != nil {
			return err
		}
	}
	return nil
}

// issueAgain issues a certificate again, for the same key and another period.
func issueAgain(dir, name string, from, until time.Time) error {
	old, public, err := readCertificate(dir, name)
	if err != nil {
		return err
	}
	authority, err := tls.LoadX509KeyPair(filepath.Join(dir, authorityOf[name]+".crt"), filepath.Join(dir, authorityOf[name]+".key"))
	if err != nil {
		return err
	}
	template := *old
	template.NotBefore, template.NotAfter = from, until
	der, err := x509.CreateCertificate(rand.Reader, &template, authority.Leaf, public, authority.PrivateKey)
	if err != nil {
		return fmt.Errorf("cannot issue %s again: %w", name, err)
	}
	return atomicfile.Write(filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func readCertificate(dir, name string) (*x509.Certificate, crypto.PublicKey, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read certificate %s: %w", name, err)
	}
	return pair.Leaf, pair.Leaf.PublicKey, nil
}

// rotate takes the first steps of replacing an authority: trust the new one, issue by it, stop trusting the old one. Between steps it waits until
// all processes have read the files.
func (c *cluster) rotate(ctx context.Context, name string, steps int) error {
	store, err := certs.Open(c.pki)
	if err != nil {
		return err
	}
	for range steps {
		authority, err := store.Authority(name, "")
		if err != nil {
			return err
		}
		state, err := authority.Rotate()
		if err != nil {
			return err
		}
		switch state {
		case certs.NotRotating:
			c.distrusted = time.Now()
			return nil
		case certs.NewIssues:
			if err := c.issueAllAgain(name); err != nil {
				return err
			}
		case certs.NewTrusted:
		}
		sleep(ctx, filesAreReadWithin)
	}
	return nil
}

// issueAllAgain makes an authority issue its certificates again, and makes clients use them.
func (c *cluster) issueAllAgain(authority string) error {
	for name, by := range authorityOf {
		if by != authority || name == authority {
			continue
		}
		if err := issueAgain(c.pki, name, time.Now().Add(-time.Minute), time.Now().AddDate(1, 0, 0)); err != nil {
			return err
		}
	}
	return c.reconnect()
}

const (
	// filesAreReadWithin is a little more than the time between two looks of services at their files.
	filesAreReadWithin = 3 * time.Second
	// authoritiesAreRead is how long servers may accept clients of a removed authority.
	authoritiesAreRead = 5 * time.Second
)

// replacements replace authorities under load.
func replacements() []fault {
	replace := func(what, name string, sides []string, needsClient bool) fault {
		f := fault{
			name: what + " CA replaced", group: "certificates", sides: sides,
			begin: func(ctx context.Context, c *cluster) error { return c.rotate(ctx, name, 2) },
			end:   func(ctx context.Context, c *cluster) error { return c.rotate(ctx, name, 1) },
		}
		if needsClient {
			f.replaces = name
		}
		return f
	}
	return []fault{
		replace("service", serviceCA, ours, false), replace("client", clientCA, both, true), replace("front-proxy", frontProxyCA, both, true),
	}
}

// expiries let certificates expire under load.
func expiries() []fault {
	expire := func(service, name string, short bool, then func(context.Context, *cluster) error) fault {
		return fault{
			name: "certificate of " + service + " expires" + name, group: "certificates", sides: ours, cuts: true, short: short,
			begin: func(ctx context.Context, c *cluster) error {
				err := issueAgain(c.pki, service, time.Now().Add(-aged), time.Now().Add(time.Second))
				sleep(ctx, 2*time.Second)
				return errors.Join(err, then(ctx, c))
			},
			end: func(_ context.Context, c *cluster) error {
				return issueAgain(c.pki, service, time.Now().Add(-aged), time.Now().AddDate(1, 0, 0))
			},
		}
	}
	// Open connections outlive their certificate. So an expired one shows only after the connections break.
	expireAndBreak := func(service string) fault {
		f := expire(service, ", connections break", service == "core", func(ctx context.Context, c *cluster) error {
			return c.breakConnections(ctx, service+"-0", service+"-1")
		})
		f.needs = network
		return f.with(map[string]expectation{"aggregator": aggregatorsAway, "core": coreAway, "extensions": extensionsAway}[service])
	}
	return []fault{
		expire("core", "", false, func(context.Context, *cluster) error { return nil }),
		expireAndBreak("core"), expireAndBreak("extensions"), expireAndBreak("aggregator"),
	}
}

// breakConnections resets all TCP connections of hosts that send anything within a second.
func (c *cluster) breakConnections(ctx context.Context, names ...string) error {
	err := c.eachHost(names, func(h *host) error { return h.filter(ctx, "meta l4proto tcp reject with tcp reset") })
	sleep(ctx, time.Second)
	return errors.Join(err, c.eachHost(names, func(h *host) error { return h.connect(ctx) }))
}
