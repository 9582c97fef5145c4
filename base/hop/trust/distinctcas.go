// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
)

// bundle is a file of CAs, and the flag that names it.
type bundle struct{ flag, file string }

// clientBundles returns the files of client CAs that the service was given.
func (o *Options) clientBundles() []bundle {
	var bundles []bundle
	for _, each := range []struct {
		flag string
		file *string
	}{{"client-ca-file", o.ClientCAFile}, {"requestheader-client-ca-file", o.RequestHeaderCAFile}} {
		if each.file != nil && *each.file != "" {
			bundles = append(bundles, bundle{each.flag, *each.file})
		}
	}
	return bundles
}

// bundles returns the file of the service CAs, and then those of client CAs.
func (o *Options) bundles() []bundle {
	return append([]bundle{{caFileFlag, o.CAFile}}, o.clientBundles()...)
}

// watch returns a watch of all these files.
func (o *Options) watch() *filewatch.Watch {
	var files []string
	for _, b := range o.bundles() {
		files = append(files, b.file)
	}
	return filewatch.New(files...)
}

// validateDistinctCAs returns an error if a client could hold a certificate that passes for a service's.
func (o *Options) validateDistinctCAs() []error {
	services, err := cert.CertsFromFile(o.CAFile)
	if err != nil {
		return nil // validateCA reports it
	}
	for _, b := range o.clientBundles() {
		clients, err := cert.CertsFromFile(b.file)
		if err != nil {
			continue // the user of the file reports it
		}
		for _, ca := range services {
			if leadsTo(ca, clients) {
				return []error{fmt.Errorf("--%s: the CA %q is in --%s, too, or has issued a CA there: a client could pass for a service; give the "+
					"services a CA of their own",
					caFileFlag, ca.Subject.CommonName, b.flag)}
			}
		}
	}
	return nil
}

// leadsTo reports whether the CA has the key of one of the others, or issued one of them.
func leadsTo(ca *x509.Certificate, others []*x509.Certificate) bool {
	key, ok := ca.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return slices.ContainsFunc(others, func(other *x509.Certificate) bool {
		return ok && key.Equal(other.PublicKey) || other.CheckSignatureFrom(ca) == nil
	})
}

// pool returns the service CAs that do not lead to a client CA, and reports whether any remain.
func pool(services []*x509.Certificate, clients []*x509.Certificate) (*x509.CertPool, bool) {
	roots, ok := x509.NewCertPool(), false
	for _, ca := range services {
		if leadsTo(ca, clients) {
			klog.ErrorS(nil, "A service CA is not trusted any more, because it is also a CA for clients, or has issued one", "ca", ca.Subject)
			continue
		}
		roots.AddCert(ca)
		ok = true
	}
	return roots, ok
}

// Pool reads the service CAs that are not client CAs too.
func (o *Options) Pool() (*x509.CertPool, error) {
	services, err := cert.CertsFromFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("service CA: %w", err)
	}
	var clients []*x509.Certificate
	for _, b := range o.clientBundles() {
		of, err := cert.CertsFromFile(b.file)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", b.flag, err)
		}
		clients = append(clients, of...)
	}
	roots, ok := pool(services, clients)
	if !ok {
		return nil, fmt.Errorf("--%s: all CAs lead to clients", caFileFlag)
	}
	return roots, nil
}

// serviceCA provides the service CAs. It reloads them and the client CAs while it runs. It trusts a service CA only while that CA leads to
// no client CA. A dynamiccertificates.DynamicFileCAContent for each file would cost a queue, which counts for its metrics twice a second.
type serviceCA struct {
	// bundles are the service CAs, and then the client CAs. valid is what was last in each that can be parsed.
	bundles   []bundle
	valid     []authorities
	watch     *filewatch.Watch
	listeners []dynamiccertificates.Listener
	current   atomic.Pointer[verification]
}

// authorities is the content of a file of CAs.
type authorities struct {
	pem          []byte
	certificates []*x509.Certificate
}

// verification is the result of the files' content.
type verification struct {
	services []byte
	options  x509.VerifyOptions
	ok       bool
}

func (o *Options) newServiceCA() (*serviceCA, error) {
	s := &serviceCA{bundles: o.bundles(), watch: o.watch()}
	s.valid = make([]authorities, len(s.bundles))
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// read makes a verification from what the watch saw. For a file that has no valid CAs, those from before count, and read returns an error.
func (s *serviceCA) read() error {
	contents, err := s.watch.Contents()
	if err != nil {
		return err
	}
	var errs []error
	var clients []*x509.Certificate
	for i, content := range contents {
		certificates, err := cert.ParseCertsPEM(content)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %s: %w", s.bundles[i].flag, s.bundles[i].file, err))
		} else {
			s.valid[i] = authorities{content, certificates}
		}
		if i > 0 {
			clients = append(clients, s.valid[i].certificates...)
		}
	}
	v := &verification{services: s.valid[0].pem, options: requestx509.DefaultVerifyOptions()}
	v.options.Roots, v.ok = pool(s.valid[0].certificates, clients)
	s.current.Store(v)
	return errors.Join(errs...)
}

// changed reads the files, and has the server read what they give.
func (s *serviceCA) changed() {
	if err := s.read(); err != nil {
		klog.ErrorS(err, "The CAs that were in this file before count on")
	}
	for _, listener := range s.listeners {
		listener.Enqueue()
	}
}

// Name implements dynamiccertificates.CAContentProvider.
func (s *serviceCA) Name() string { return "service-ca::" + s.bundles[0].file }

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (s *serviceCA) CurrentCABundleContent() []byte { return s.current.Load().services }

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (s *serviceCA) VerifyOptions() (x509.VerifyOptions, bool) {
	current := s.current.Load()
	return current.options, current.ok
}

// AddListener implements dynamiccertificates.Notifier.
func (s *serviceCA) AddListener(listener dynamiccertificates.Listener) {
	s.listeners = append(s.listeners, listener)
}

// RunOnce implements dynamiccertificates.ControllerRunner.
func (s *serviceCA) RunOnce(context.Context) error {
	if s.watch.Look() {
		s.changed()
	}
	return nil
}

// Run implements dynamiccertificates.ControllerRunner.
func (s *serviceCA) Run(ctx context.Context, _ int) { s.watch.Run(ctx, s.changed) }
