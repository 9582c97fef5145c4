// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tripod-k8s/tripod/base/certs/privatedir"
	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// Store is a directory of certificates and keys, NAME.crt and NAME.key.
type Store struct {
	*Issuer
	dir directory
}

// Open returns the store in dir. It makes the directory, readable by its owner only, if it is missing. It refuses the directory of
// another user, and one in which others can put certificates.
func Open(dir string) (*Store, error) {
	if err := privatedir.Make(dir); err != nil {
		return nil, fmt.Errorf("cannot use the directory for certificates: %w", err)
	}
	return &Store{Issuer: NewIssuer(directory(dir), Lifetimes{}), dir: directory(dir)}, nil
}

// CertFile returns the path of the certificate of a name. The file of an authority has all certificates to trust in its
// place.
func (s *Store) CertFile(name string) string { return s.dir.path(name, certExtension) }

// KeyFile returns the path of the private key of a name.
func (s *Store) KeyFile(name string) string { return s.dir.path(name, keyExtension) }

// PublicKeyFile returns the path of the public key of a name.
func (s *Store) PublicKeyFile(name string) string { return s.dir.path(name, publicExtension) }

const (
	certExtension   = ".crt"
	keyExtension    = ".key"
	publicExtension = ".pub"
)

// directory is a storage of files. Only authorities have Trusted certificates there.
type directory string

func (d directory) path(name, extension string) string {
	return filepath.Join(string(d), name+extension)
}

// Names returns paths.
func (d directory) Names(name string) Names {
	return Names{Certificate: d.path(name, certExtension), Key: d.path(name, keyExtension), All: d.path(name, ".*")}
}

// Read returns the content of the files.
func (d directory) Read(name string) (Pair, error) {
	var pair Pair
	for extension, part := range map[string]*[]byte{
		certExtension: &pair.Trusted, keyExtension: &pair.Key, publicExtension: &pair.Public,
	} {
		data, err := os.ReadFile(d.path(name, extension))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Pair{}, fmt.Errorf("cannot read certificate or key: %w", err)
		}
		*part = data
	}
	// The first certificate belongs to the key. The decoder of the content reports what is no certificate.
	pair.Certificate = pair.Trusted
	if first, _ := pem.Decode(pair.Trusted); first != nil {
		pair.Certificate = pem.EncodeToMemory(first)
	}
	return pair, nil
}

// Write writes what changed, the key first, because readers notice a key without its certificate.
func (d directory) Write(name string, pair Pair) error {
	certificates := pair.Certificate
	if bytes.HasPrefix(pair.Trusted, pair.Certificate) {
		certificates = pair.Trusted
	}
	for _, file := range []struct {
		extension string
		content   []byte
	}{{keyExtension, pair.Key}, {certExtension, certificates}, {publicExtension, pair.Public}} {
		path := d.path(name, file.extension)
		if len(file.content) == 0 {
			continue
		}
		if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, file.content) {
			continue
		}
		if err := atomicfile.Write(path, file.content); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the files.
func (d directory) Remove(name string) error {
	for _, extension := range []string{certExtension, keyExtension, publicExtension} {
		if err := os.Remove(d.path(name, extension)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove certificate or key: %w", err)
		}
	}
	return nil
}
