// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/internal/hop/clientcert"
	"github.com/tripod-k8s/tripod/internal/hop/envelope"
	"github.com/tripod-k8s/tripod/internal/tuning/deepstack"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// User names of the services: the common names of their certificates.
const (
	Aggregator = "system:tripod:aggregator"
	Core       = "system:tripod:core"
	Extensions = "system:tripod:extensions"
)

var services = []string{Aggregator, Core, Extensions}

// senders finds out who sent a request, by the certificate of the service that it comes from.
type senders struct {
	certificates authenticator.Request
}

// newSenders returns senders that verify certificates with the CA bundle in caFile. It is reloaded when the file
// changes, once somebody runs the provider: a generic API server does so for the client CAs of its listener.
func newSenders(caFile string) (*senders, dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("service-ca", caFile)
	if err != nil {
		return nil, nil, err
	}
	certificates := clientcert.NewAuthenticator(ca.VerifyOptions, requestx509.UserConversionFunc(serviceUser))
	return &senders{certificates: certificates}, ca, nil
}

// service is the user of a request that a service sends in its own name. What a service may do goes with this type and
// not with the name, which a client's certificate may have, too, and which can be impersonated.
type service struct{ user.DefaultInfo }

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
	response.User = newService(response.User.GetName(), response.User.GetExtra())
	return response, true, nil
}

func newService(name string, extra map[string][]string) *service {
	return &service{user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}, Extra: extra}}
}

// ServiceOf returns the user name of the service that a user is, and an empty string for everybody else, whatever the name.
func ServiceOf(u user.Info) string {
	if s, ok := u.(*service); ok {
		return s.Name
	}
	return ""
}

// backends are the services that send requests by way of the aggregator.
var backends = []string{Core, Extensions}

// NewBackendAuthenticator returns how the aggregator knows core and extensions: by their certificates of the CA bundle in
// caFile, which must be among the client CAs of its listener. It has no opinion on anybody else, the aggregator included:
// what that wants of itself does not come over the network.
func NewBackendAuthenticator(caFile string) (authenticator.Request, dynamiccertificates.CAContentProvider, error) {
	known, ca, err := newSenders(caFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s: %w", caFileFlag, err)
	}
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		// A certificate that is not one of a service is the business of whoever comes next.
		response, ok, _ := known.certificates.AuthenticateRequest(req)
		if !ok || !slices.Contains(backends, response.User.GetName()) {
			return nil, false, nil
		}
		return response, true, nil
	}), ca, nil
}

// ownEnvelope names the aggregator itself.
var ownEnvelope = func() string {
	value, err := envelope.Encode(&identityv1.Envelope{Self: true})
	utilruntime.Must(err)
	return value
}()

// SpeakAsAggregator makes the aggregator itself the sender of a request to a backend. The headers are changed.
func SpeakAsAggregator(req *http.Request) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header[envelope.Header] = []string{ownEnvelope}
}

// sender is who sent a request, as far as the services are concerned. At most one of envelope, service and refused is set;
// none is when it came from somebody else.
type sender struct {
	// envelope is what the aggregator says about its client.
	envelope *identityv1.Envelope
	// service is the user of a service that speaks for itself.
	service *authenticator.Response
	// refused says why nobody is believed to have sent it.
	refused error
	// address is where it came from to the aggregator. It may be empty.
	address string
}

var (
	errNotAggregator = errors.New("only the aggregator may say who sent a request")
	errNoEnvelope    = errors.New("a request of the aggregator must say who sent it")
)

// of returns the sender, and removes the envelope from the request.
func (s *senders) of(req *http.Request) sender {
	values, enclosed := req.Header[envelope.Header]
	delete(req.Header, envelope.Header)

	// A certificate that is not one of a service is the business of whoever comes next.
	response, isService, _ := s.certificates.AuthenticateRequest(req)
	fromAggregator := isService && response.User.GetName() == Aggregator
	switch {
	case enclosed && !fromAggregator:
		return sender{refused: errNotAggregator}
	case enclosed && len(values) != 1:
		return sender{refused: fmt.Errorf("a request has one sender, and not %d", len(values))}
	case enclosed:
		return opened(values[0], response)
	case fromAggregator:
		return sender{refused: errNoEnvelope}
	case isService:
		return sender{service: response}
	}
	return sender{}
}

// opened returns the sender that an envelope of the aggregator names.
func opened(value string, aggregator *authenticator.Response) sender {
	e, err := envelope.Decode(value)
	switch name := e.GetService(); {
	case err != nil:
		return sender{refused: err}
	case e.GetSelf():
		return sender{service: aggregator}
	case name == "":
		return sender{envelope: e, address: e.GetClientAddress()}
	case slices.Contains(backends, name):
		return sender{service: &authenticator.Response{User: newService(name, nil)}, address: e.GetClientAddress()}
	default:
		return sender{refused: fmt.Errorf("%q is no service that sends requests by way of the aggregator", name)}
	}
}

type senderKey struct{}

// withSender finds out who sent a request before anything else is done with it, so that all handlers see the address
// of the client and none sees the envelope.
func (s *senders) withSender(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		deepstack.Grow() // this may be a goroutine of HTTP/2
		from := s.of(req)
		req = req.WithContext(from.traceOf(context.WithValue(req.Context(), senderKey{}, from), req.Header))
		if from.address != "" {
			req.RemoteAddr = from.address
		}
		handler.ServeHTTP(w, req)
	})
}

// authenticate is the authenticator for what withSender found. It has no opinion on requests of others.
func authenticate(req *http.Request) (*authenticator.Response, bool, error) {
	deepstack.Grow() // the handler of timeouts has begun a goroutine
	from, _ := req.Context().Value(senderKey{}).(sender)
	switch {
	case from.refused != nil:
		return nil, false, from.refused
	case from.service != nil:
		return from.service, true, nil
	case from.envelope != nil:
		if annotations := from.envelope.GetAuditAnnotations(); len(annotations) > 0 {
			audit.AddAuditAnnotationsMap(req.Context(), annotations)
		}
		for _, w := range from.envelope.GetWarnings() {
			warning.AddWarning(req.Context(), w.GetAgent(), w.GetText())
		}
		return &authenticator.Response{User: envelope.ToUser(from.envelope.GetUser())}, true, nil
	}
	return nil, false, nil
}
