// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// bundle is a file of client CAs, and the flag that names it.
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
// no client CA.
type serviceCA struct {
	*dynamiccertificates.DynamicFileCAContent
	clients []*dynamiccertificates.DynamicFileCAContent
	current atomic.Pointer[verification]
}

// verification is the result of the files' content.
type verification struct {
	content [3][]byte
	options x509.VerifyOptions
	ok      bool
}

func (o *Options) newServiceCA() (*serviceCA, error) {
	services, err := dynamiccertificates.NewDynamicCAContentFromFile("service-ca", o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", caFileFlag, err)
	}
	s := &serviceCA{DynamicFileCAContent: services}
	for _, b := range o.clientBundles() {
		clients, err := dynamiccertificates.NewDynamicCAContentFromFile("apart-from-service-ca", b.file)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", b.flag, err)
		}
		s.clients = append(s.clients, clients)
	}
	return s, nil
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (s *serviceCA) VerifyOptions() (x509.VerifyOptions, bool) {
	content := [3][]byte{s.CurrentCABundleContent()}
	for i, clients := range s.clients {
		content[i+1] = clients.CurrentCABundleContent()
	}
	if current := s.current.Load(); current != nil && current.follows(content) {
		return current.options, current.ok
	}
	v := &verification{content: content}
	v.options, _ = s.DynamicFileCAContent.VerifyOptions()
	var clients []*x509.Certificate
	for _, bundle := range content[1:] {
		// The providers accept only content that can be parsed.
		of, _ := cert.ParseCertsPEM(bundle)
		clients = append(clients, of...)
	}
	services, _ := cert.ParseCertsPEM(content[0])
	v.options.Roots, v.ok = pool(services, clients)
	s.current.Store(v)
	return v.options, v.ok
}

// follows reports whether the verification was made from this content.
func (v *verification) follows(content [3][]byte) bool {
	for i := range content {
		if !bytes.Equal(content[i], v.content[i]) {
			return false
		}
	}
	return true
}

// RunOnce implements dynamiccertificates.ControllerRunner.
func (s *serviceCA) RunOnce(ctx context.Context) error {
	for _, clients := range s.clients {
		if err := clients.RunOnce(ctx); err != nil {
			return err
		}
	}
	return s.DynamicFileCAContent.RunOnce(ctx)
}

// Run implements dynamiccertificates.ControllerRunner.
func (s *serviceCA) Run(ctx context.Context, workers int) {
	var runs sync.WaitGroup
	for _, clients := range s.clients {
		runs.Go(func() { clients.Run(ctx, workers) })
	}
	s.DynamicFileCAContent.Run(ctx, workers)
	runs.Wait()
}
