// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"k8s.io/client-go/util/cert"
)

const (
	caFileFlag   = "service-ca-file"
	certFileFlag = "service-cert-file"
	keyFileFlag  = "service-key-file"
)

// Options are the files with which a service proves its identity to other services and checks theirs.
type Options struct {
	// CAFile is the PEM bundle of the service CA.
	CAFile string
	// CertFile and KeyFile are the service's own certificate and key (PEM), signed by the service CA.
	CertFile string
	KeyFile  string
}

// AddFlags adds the flags that all services of Tripod share.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.CAFile, caFileFlag, o.CAFile,
		"File with the CA certificates (PEM) that sign the certificates of Tripod's services.")
	fs.StringVar(&o.CertFile, certFileFlag, o.CertFile,
		"File with the certificate (PEM) that this service presents to Tripod's other services.")
	fs.StringVar(&o.KeyFile, keyFileFlag, o.KeyFile,
		"File with the private key (PEM) of --"+certFileFlag+".")
}

// Validate reads the files. It returns one error for each flag that is missing or whose file is not usable.
func (o *Options) Validate() []error {
	var errs []error
	if err := validateCA(o.CAFile); err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", caFileFlag, err))
	}
	return append(errs, o.validateKeyPair()...)
}

var errRequired = errors.New("required")

func validateCA(file string) error {
	if file == "" {
		return errRequired
	}
	if _, err := cert.CertsFromFile(file); err != nil {
		return err
	}
	return nil
}

// ValidateApart returns an error if the service CA is also in the CA bundle for clients, the file of a flag. A client whose certificate has
// the name of a service would then be that service. An empty file name is no error.
func (o *Options) ValidateApart(flag, file string) []error {
	if file == "" {
		return nil
	}
	clients, err := cert.CertsFromFile(file)
	if err != nil {
		return nil // whoever uses the file says so
	}
	services, err := cert.CertsFromFile(o.CAFile)
	if err != nil {
		return nil // Validate says so
	}
	for _, ca := range services {
		if slices.ContainsFunc(clients, ca.Equal) {
			return []error{fmt.Errorf("--%s: the CA %q is in --%s, too: a client with a certificate of it could pass for a service; give the services a CA of their own",
				caFileFlag, ca.Subject.CommonName, flag)}
		}
	}
	return nil
}

// user returns the common name of the service's certificate.
func (o *Options) user() (string, error) {
	chain, err := cert.CertsFromFile(o.CertFile)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", certFileFlag, err)
	}
	return chain[0].Subject.CommonName, nil
}

func (o *Options) validateKeyPair() []error {
	var errs []error
	certPEM, err := readRequired(o.CertFile)
	if err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", certFileFlag, err))
	}
	keyPEM, err := readRequired(o.KeyFile)
	if err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", keyFileFlag, err))
	}
	if len(errs) > 0 {
		return errs
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return []error{fmt.Errorf("--%s %s and --%s %s: %w", certFileFlag, o.CertFile, keyFileFlag, o.KeyFile, err)}
	}
	return nil
}

func readRequired(file string) ([]byte, error) {
	if file == "" {
		return nil, errRequired
	}
	return os.ReadFile(file)
}

// ClientConfig reads the files and returns the configuration of a client for servers with a certificate for serverName.
func (o *Options) ClientConfig(serverName string) (*tls.Config, error) {
	cas, err := cert.NewPool(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("service CA: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of this service: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    cas,
		// Unlike Certificates, this presents the certificate even if the server asks for other CAs: the server can then say what is wrong.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}, nil
}
