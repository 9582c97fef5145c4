// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetrust

import (
	"crypto/x509"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// User names of the services: the common names of their certificates.
const (
	Aggregator = "system:tripod:aggregator"
	Core       = "system:tripod:core"
	Extensions = "system:tripod:extensions"
)

// Headers in which the aggregator names the user of a request. They are what kube-apiserver sends to
// aggregated API servers.
const (
	UserHeader        = "X-Remote-User"
	UIDHeader         = "X-Remote-Uid"
	GroupHeader       = "X-Remote-Group"
	ExtraHeaderPrefix = "X-Remote-Extra-"
)

var services = []string{Aggregator, Core, Extensions}

// NewAuthenticator returns an authenticator of requests that come from Tripod's services, and the CA bundle that it
// verifies them with, read from caFile. The bundle is reloaded when the file changes, once somebody runs it: a
// generic API server does so for the client CAs of its listener.
func NewAuthenticator(caFile string) (authenticator.Request, dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("service-ca", caFile)
	if err != nil {
		return nil, nil, err
	}
	forwarded := headerrequest.NewDynamicVerifyOptionsSecure(
		ca.VerifyOptions,
		headerrequest.StaticStringSlice{Aggregator},
		headerrequest.StaticStringSlice{UserHeader},
		headerrequest.StaticStringSlice{UIDHeader},
		headerrequest.StaticStringSlice{GroupHeader},
		headerrequest.StaticStringSlice{ExtraHeaderPrefix},
	)
	own := requestx509.NewDynamic(ca.VerifyOptions, requestx509.UserConversionFunc(serviceUser))
	return union.New(forwarded, own), ca, nil
}

// serviceUser gives a service its user. The groups of the certificate are ignored: what a service may do follows from
// its name alone. It is in system:authenticated because the flow schemas of API Priority and Fairness look for that.
func serviceUser(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
	if !slices.Contains(services, chain[0].Subject.CommonName) {
		return nil, false, nil
	}
	response, ok, err := requestx509.CommonNameUserConversion(chain)
	if err != nil || !ok {
		return nil, false, err
	}
	response.User = &user.DefaultInfo{
		Name:   response.User.GetName(),
		Groups: []string{user.AllAuthenticated},
		Extra:  response.User.GetExtra(),
	}
	return response, true, nil
}
