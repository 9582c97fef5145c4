// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tripod-k8s/tripod/base/certs"
)

// Keys in a Secret. caKey is cert-manager's. A new authority has keys of its own until it issues.
const (
	certKey     = corev1.TLSCertKey
	keyKey      = corev1.TLSPrivateKeyKey
	caKey       = "ca.crt"
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
)

// secrets are the Secrets of a configuration in memory. They are a certs.Storage. The method write writes what changed.
type secrets struct {
	client    typedcorev1.SecretInterface
	namespace string
	labels    map[string]string
	byName    map[string]*secret
	// waiting are the Secrets that have a part under another name.
	waiting map[string]string
}

// secret is a Secret as it is, and as it was read, which is nil if there was none.
type secret struct {
	now, before *corev1.Secret
}

// read adds the Secret called name.
func (s *secrets) read(ctx context.Context, name string) error {
	object, err := s.client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.byName[name] = &secret{now: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Type: corev1.SecretTypeTLS,
		}}
	case err != nil:
		return fmt.Errorf("cannot read Secret %s/%s: %w", s.namespace, name, err)
	default:
		s.byName[name] = &secret{now: object.DeepCopy(), before: object}
	}
	return nil
}

// locate returns the Secret that has the pair called name, and the keys of its parts.
func (s *secrets) locate(name string) (secret *corev1.Secret, cert, key, ca string) {
	if in, ok := s.waiting[name]; ok {
		return s.byName[in].now, nextCertKey, nextKeyKey, ""
	}
	return s.byName[name].now, certKey, keyKey, caKey
}

func part(secret *corev1.Secret, key string) []byte {
	if value := secret.Data[key]; len(value) > 0 {
		return value
	}
	return nil
}

// Read implements certs.Storage.
func (s *secrets) Read(name string) (certs.Pair, error) {
	secret, cert, key, ca := s.locate(name)
	return certs.Pair{Certificate: part(secret, cert), Key: part(secret, key), Trusted: part(secret, ca)}, nil
}

// Write implements certs.Storage. A public key is in the certificate.
func (s *secrets) Write(name string, pair certs.Pair) error {
	secret, cert, key, ca := s.locate(name)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[cert], secret.Data[key] = pair.Certificate, pair.Key
	if ca != "" {
		secret.Data[ca] = pair.Trusted
	}
	return nil
}

// Remove implements certs.Storage.
func (s *secrets) Remove(name string) error {
	secret, cert, key, ca := s.locate(name)
	for _, each := range []string{cert, key, ca} {
		delete(secret.Data, each)
	}
	return nil
}

// Names implements certs.Storage.
func (s *secrets) Names(name string) certs.Names {
	secret, cert, key, _ := s.locate(name)
	where := "Secret " + s.namespace + "/" + secret.Name
	return certs.Names{Certificate: cert + " of " + where, Key: key + " of " + where, All: where}
}

// changed reports whether the Secret differs from what was read.
func (s *secrets) changed(name string) bool {
	secret := s.byName[name]
	return secret.before == nil || !maps.EqualFunc(secret.now.Data, secret.before.Data, bytes.Equal) ||
		!maps.Equal(secret.now.Labels, secret.before.Labels) || !maps.Equal(secret.now.Annotations, secret.before.Annotations)
}

// action says what was done to the Secret.
func (s *secrets) action(name string) Action {
	secret := s.byName[name]
	switch {
	case secret.before == nil:
		return Created
	case !bytes.Equal(secret.now.Data[certKey], secret.before.Data[certKey]):
		return Renewed
	case s.changed(name):
		return Updated
	}
	return Unchanged
}

// label adds the labels to those of the Secret.
func (s *secrets) label(name string) {
	secret := s.byName[name].now
	if secret.Labels == nil && len(s.labels) > 0 {
		secret.Labels = map[string]string{}
	}
	maps.Copy(secret.Labels, s.labels)
}

// write writes the Secret if no other client has changed it since it was read.
func (s *secrets) write(ctx context.Context, name string) error {
	secret := s.byName[name]
	var err error
	if secret.before == nil {
		_, err = s.client.Create(ctx, secret.now, metav1.CreateOptions{})
	} else {
		_, err = s.client.Update(ctx, secret.now, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("cannot write Secret %s/%s: %w", s.namespace, name, err)
	}
	return nil
}
