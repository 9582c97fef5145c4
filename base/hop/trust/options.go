// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"

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

	// ClientCAFile and RequestHeaderCAFile point at the values of these flags: the CA bundles of clients and of authenticating proxies. They
	// are nil if the service has no such flag. No service CA may lead to a CA in them.
	ClientCAFile, RequestHeaderCAFile *string
}

// AddFlags adds the flags of identity that all services share.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.CAFile, caFileFlag, o.CAFile,
		"File with the CA certificates (PEM) that sign the certificates of Tripod's services.")
	fs.StringVar(&o.CertFile, certFileFlag, o.CertFile,
		"File with the certificate (PEM) that this service presents to Tripod's other services.")
	fs.StringVar(&o.KeyFile, keyFileFlag, o.KeyFile,
		"File with the private key (PEM) of --"+certFileFlag+".")
}

// Validate reads the files. It returns an error for each missing flag and each unusable file, and if a service CA is also a client CA.
func (o *Options) Validate() []error {
	var errs []error
	if err := validateCA(o.CAFile); err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", caFileFlag, err))
	}
	errs = append(errs, o.validateKeyPair()...)
	return append(errs, o.validateDistinctCAs()...)
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
	cas, err := o.Pool()
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of this service: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    cas,
		// Unlike Certificates, this presents the certificate even if the server asks for other CAs. The server can then report what is wrong.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}, nil
}
