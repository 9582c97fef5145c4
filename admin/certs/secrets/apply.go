// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

// Action is what was done to a Secret.
type Action string

// Actions.
const (
	Created   Action = "created"
	Renewed   Action = "renewed"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
)

// Result says what happened to a Secret.
type Result struct {
	Secret string `json:"secret"`
	Action Action `json:"action"`
	// Expires is when the certificate expires, if a client checks that.
	Expires *time.Time `json:"expires,omitempty"`
	// Rotation is how far the replacement of an authority has come.
	Rotation certs.Rotation `json:"rotation,omitempty"`
}

// All in Options.Renew stands for all certificates.
const All = "all"

// Options say what to do besides what is due.
type Options struct {
	// Renew are Secrets of certificates to renew now.
	Renew []string
	// Rotate are Secrets of authorities whose rotation takes its next step now.
	Rotate []string
	// Settle is how long services have to reload their files between two steps of a rotation.
	Settle time.Duration
	// Wait is how long to wait for Secrets that others make.
	Wait time.Duration
}

// backoff is for conflicts with other writers. Each attempt reads first.
var backoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8}

// Apply makes what is missing, renews what is due, and takes the next steps of rotations.
func Apply(ctx context.Context, client kubernetes.Interface, c *Config, o Options) ([]Result, error) {
	a := &apply{Config: c, options: o, client: client, now: time.Now, written: map[string]Action{}}
	if err := a.check(); err != nil {
		return nil, err
	}
	if err := a.waitForOthers(ctx); err != nil {
		return nil, err
	}
	var results []Result
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		results, last = a.attempt(ctx)
		if apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) || apierrors.IsNotFound(last) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		err = last
	}
	return results, err
}

type apply struct {
	*Config
	client  kubernetes.Interface
	options Options
	now     func() time.Time
	// written are the Secrets that were written, in this attempt or one before: what was asked for is done to them.
	written map[string]Action

	secrets *secrets
	issuer  *certs.Issuer
}

// check refuses names that are not in the configuration.
func (a *apply) check() error {
	for _, name := range a.options.Renew {
		if name != All && !slices.ContainsFunc(a.Certificates, func(c CertificateConfig) bool { return c.Secret == name }) {
			return fmt.Errorf("cannot renew %s: there is no such certificate in the configuration", name)
		}
	}
	for _, name := range a.options.Rotate {
		if !slices.ContainsFunc(a.Authorities, func(c AuthorityConfig) bool { return c.Secret == name }) {
			return fmt.Errorf("cannot rotate %s: there is no such authority in the configuration", name)
		}
	}
	return nil
}

// own are the Secrets that this configuration makes, in the order of writing: a certificate is of no use without the authority
// that issued it.
func (a *apply) own() []string {
	var names []string
	for _, authority := range a.Authorities {
		names = append(names, authority.Secret)
	}
	if a.ServiceAccountKey != nil {
		names = append(names, a.ServiceAccountKey.Secret)
	}
	for _, certificate := range a.Certificates {
		names = append(names, certificate.Secret)
	}
	if a.Kubeconfig != nil {
		names = append(names, a.Kubeconfig.Secret)
	}
	return names
}

// others are the Secrets that this configuration uses and others make.
func (a *apply) others() []string {
	if a.Kubeconfig == nil {
		return nil
	}
	return slices.DeleteFunc([]string{a.Kubeconfig.Client}, func(name string) bool { return slices.Contains(a.own(), name) })
}

func (a *apply) read(ctx context.Context) error {
	a.secrets = &secrets{client: a.client.CoreV1().Secrets(a.Namespace), namespace: a.Namespace, labels: a.Labels,
		byName: map[string]*secret{}, waiting: map[string]string{}}
	a.issuer = certs.NewIssuer(a.secrets, a.lifetimes())
	for _, authority := range a.Authorities {
		a.secrets.waiting[certs.Next(authority.Secret)] = authority.Secret
	}
	for _, name := range slices.Concat(a.own(), a.others()) {
		if err := a.secrets.read(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// attempt reads everything, changes it in memory, and writes what changed. It stops at a conflict with another writer.
func (a *apply) attempt(ctx context.Context) ([]Result, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	rotations := map[string]certs.Rotation{}
	for _, authority := range a.Authorities {
		rotation, err := a.authority(authority)
		if err != nil {
			return nil, err
		}
		rotations[authority.Secret] = rotation
	}
	if a.ServiceAccountKey != nil {
		if err := a.issuer.EnsureSigningKey(a.ServiceAccountKey.Secret); err != nil {
			return nil, err
		}
	}
	if err := a.kubeconfig(); err != nil {
		return nil, err
	}
	var results []Result
	for _, name := range a.own() {
		a.secrets.label(name)
		if a.secrets.changed(name) {
			if err := a.secrets.write(ctx, name); err != nil {
				return nil, err
			}
			if a.written[name] != Created {
				a.written[name] = a.secrets.action(name)
			}
		}
		result := Result{Secret: name, Action: Unchanged, Rotation: rotations[name]}
		if action, ok := a.written[name]; ok {
			result.Action = action
		}
		if a.ServiceAccountKey == nil || name != a.ServiceAccountKey.Secret {
			result.Expires = expiry(a.secrets.byName[name].now.Data[certKey])
		}
		results = append(results, result)
	}
	return results, nil
}

// ensure makes or renews what the authority issues and reports whether that changed anything.
func (a *apply) ensure(authority *certs.Authority, name string) (changed bool, err error) {
	for _, certificate := range a.Certificates {
		if certificate.Authority != name {
			continue
		}
		leaf, err := certificate.leaf()
		if err != nil {
			return false, err
		}
		if _, done := a.written[certificate.Secret]; !done && a.asked(certificate.Secret) {
			err = authority.Renew(certificate.Secret, leaf)
		} else {
			_, err = authority.Ensure(certificate.Secret, leaf)
		}
		if err != nil {
			return false, err
		}
		changed = changed || a.secrets.changed(certificate.Secret)
	}
	return changed, nil
}

func (a *apply) asked(secret string) bool {
	return slices.Contains(a.options.Renew, secret) || slices.Contains(a.options.Renew, All)
}

// kubeconfig writes the kubeconfig as it should be now.
func (a *apply) kubeconfig() error {
	k := a.Kubeconfig
	if k == nil {
		return nil
	}
	client := a.secrets.byName[k.Client].now
	data, err := kubeconfig.Encode(kubeconfig.Content{
		Name: k.Name, Server: k.Server, Authority: client.Data[caKey], Certificate: client.Data[certKey], Key: client.Data[keyKey],
	})
	if err != nil {
		return err
	}
	secret := a.secrets.byName[k.Secret]
	if secret.before == nil {
		secret.now.Type = corev1.SecretTypeOpaque
	}
	if secret.now.Data == nil {
		secret.now.Data = map[string][]byte{}
	}
	secret.now.Data[k.Key] = data
	return nil
}

// waitForOthers waits until the Secrets that others make exist and have content.
func (a *apply) waitForOthers(ctx context.Context) error {
	if len(a.others()) == 0 {
		return nil
	}
	var missing error
	there := func(ctx context.Context) (bool, error) {
		if err := a.read(ctx); err != nil {
			return false, err
		}
		for _, name := range a.others() {
			for _, key := range []string{certKey, keyKey, caKey} {
				if part(a.secrets.byName[name].now, key) == nil {
					missing = fmt.Errorf("there is no %s in Secret %s/%s", key, a.Namespace, name)
					return false, nil
				}
			}
		}
		return true, nil
	}
	if ok, err := there(ctx); ok || err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, a.options.Wait, false, there)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%w after %s: does its maker (cert-manager) run?", missing, a.options.Wait)
	}
	return err
}

func expiry(certificate []byte) *time.Time {
	cert, err := parse(certificate)
	if err != nil {
		return nil
	}
	return &cert.NotAfter
}

func parse(certificate []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
