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
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/base/hop/clientcert"
	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/watches"
	"github.com/tripod-k8s/tripod/base/tuning/deepstack"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// User names of services. They are the common names of their certificates.
const (
	// Aggregator is the user name of the service that states who sent a request.
	Aggregator = userPrefix + "aggregator"
	// AnyOther stands for every service without an entry in [Rights]. It is no service's user name.
	AnyOther = userPrefix + anyName

	// anyName ends the user names that stand for services, see [AnyOf].
	anyName = "NAME"

	userPrefix = "system:tripod:"
)

// UserOf returns the user name of a service ("core", ...).
func UserOf(service string) string { return userPrefix + service }

// AnyOf stands in [Rights] for every service without an entry of its own whose name is that of a service, a dash, and more. It is no
// service's user name.
func AnyOf(service string) string { return UserOf(service) + "-" + anyName }

// isService reports whether a user name is that of a service. Any DNS label may be the name of an additional API service.
func isService(user string) bool {
	name, ok := strings.CutPrefix(user, userPrefix)
	return ok && len(validation.IsDNS1035Label(name)) == 0
}

// isBackend reports whether a user name is that of a service that sends requests to the aggregator.
func isBackend(user string) bool { return user != Aggregator && isService(user) }

// senders identifies the sender of a request by the certificate of the connection.
type senders struct {
	certificates authenticator.Request
	// refuseAnonymous refuses envelopes of clients without credentials.
	refuseAnonymous bool
	// sessions carry the events of watches to aggregators.
	sessions watches.Sessions
}

// senders returns senders that verify certificates with the service CAs. The provider reloads the files while it runs. A generic API server
// runs the providers of its client CAs.
func (o *Options) senders() (*senders, dynamiccertificates.CAContentProvider, error) {
	ca, err := o.newServiceCA()
	if err != nil {
		return nil, nil, err
	}
	certificates := clientcert.NewAuthenticator(ca.VerifyOptions, requestx509.UserConversionFunc(serviceUser))
	return &senders{certificates: certificates}, ca, nil
}

// service is the user of a request that a service sends in its own name. The rights of a service depend on this type, not on the user name:
// a client's certificate may have the same name, and a client may impersonate it.
type service struct{ user.DefaultInfo }

// serviceUser returns the user of a service. It ignores the groups of the certificate. The user is in system:authenticated because flow
// schemas of API Priority and Fairness match that group.
func serviceUser(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
	if !isService(chain[0].Subject.CommonName) {
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

// ServiceOf returns the user name of a service, and "" for any other user, even one with the name of a service.
func ServiceOf(u user.Info) string {
	if s, ok := u.(*service); ok {
		return s.Name
	}
	return ""
}

// BackendAuthenticator returns the authenticator with which the aggregator recognises the other services. The provider of the service CAs
// must be among the client CAs of the listener. The authenticator has no opinion on other users. That includes the aggregator, whose
// requests to itself do not use the network.
func (o *Options) BackendAuthenticator() (authenticator.Request, dynamiccertificates.CAContentProvider, error) {
	known, ca, err := o.senders()
	if err != nil {
		return nil, nil, err
	}
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		// The next authenticator judges other certificates.
		response, ok, _ := known.certificates.AuthenticateRequest(req)
		if !ok || !isBackend(response.User.GetName()) {
			return nil, false, nil
		}
		return response, true, nil
	}), ca, nil
}

// ownEnvelope is the envelope of requests that the aggregator sends in its own name.
var ownEnvelope = func() string {
	value, err := envelope.Encode(&identityv1.Envelope{Self: true})
	utilruntime.Must(err)
	return value
}()

// SpeakAsAggregator makes the aggregator the sender of a request to a backend. It changes the headers of the request.
func SpeakAsAggregator(req *http.Request) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header[envelope.Header] = []string{ownEnvelope}
}

// sender is the sender of a request. At most one of envelope, service and refused is set. For a direct client none is.
type sender struct {
	// envelope is the aggregator's statement about its client.
	envelope *identityv1.Envelope
	// user is who envelope names.
	user user.Info
	// service is the user of a service that sent the request in its own name.
	service *authenticator.Response
	// decision is what the aggregator says about a request of service. It may be nil.
	decision *identityv1.Decision
	// refused says why the request is unauthorized.
	refused error
	// address is the client's address as the aggregator saw it, or empty.
	address string
	// aggregator is set if the aggregator sent the request, and self if it did so in its own name.
	aggregator, self bool
}

var (
	errNotAggregator = errors.New("only the aggregator may say who sent a request")
	errNoEnvelope    = errors.New("a request of the aggregator must say who sent it")
	errAnonymous     = errors.New("this service accepts no request without credentials")
)

// of returns the sender, and removes the envelope from the request.
func (s *senders) of(req *http.Request) sender {
	values, enclosed := req.Header[envelope.Header]
	delete(req.Header, envelope.Header)

	// The next authenticator judges other certificates.
	response, isService, _ := s.certificates.AuthenticateRequest(req)
	fromAggregator := isService && response.User.GetName() == Aggregator
	switch {
	case enclosed && !fromAggregator:
		return sender{refused: errNotAggregator}
	case enclosed && len(values) != 1:
		return sender{refused: fmt.Errorf("a request has one sender, and not %d", len(values))}
	case enclosed:
		from := s.open(values[0], response)
		from.aggregator = from.refused == nil
		return from
	case fromAggregator:
		return sender{refused: errNoEnvelope}
	case isService:
		return sender{service: response}
	}
	return sender{}
}

// open decodes an envelope of the aggregator.
func (s *senders) open(value string, aggregator *authenticator.Response) sender {
	e, err := envelope.Decode(value)
	switch name := e.GetService(); {
	case err != nil:
		return sender{refused: err}
	case e.GetSelf():
		return sender{service: aggregator, self: true}
	case name == "" && s.refuseAnonymous && isAnonymous(e.GetUser()):
		return sender{refused: errAnonymous}
	case name == "":
		return sender{envelope: e, user: envelope.ToUser(e.GetUser()), address: e.GetClientAddress()}
	case isBackend(name):
		response := &authenticator.Response{User: newService(name, nil)}
		return sender{service: response, decision: e.GetDecision(), address: e.GetClientAddress()}
	default:
		return sender{refused: fmt.Errorf("%q is no service that sends requests by way of the aggregator", name)}
	}
}

func isAnonymous(u *identityv1.User) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}

type senderKey struct{}

// NamespaceEnds reports whether the aggregator has passed on a deletion of the request's namespace a moment ago.
func NamespaceEnds(ctx context.Context) bool {
	from, _ := ctx.Value(senderKey{}).(sender)
	return from.envelope.GetNamespaceEnds()
}

// withSender identifies the sender before any other handler runs. So every handler sees the client's address, and none sees the envelope.
func (s *senders) withSender(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		deepstack.Grow() // this may be a goroutine of HTTP/2
		from := s.of(req)
		req = req.WithContext(from.traceOf(context.WithValue(req.Context(), senderKey{}, from), req.Header))
		if from.address != "" {
			req.RemoteAddr = from.address
		}
		if from.refused != nil && !errors.Is(from.refused, errAnonymous) { // errAnonymous concerns the client, all others the aggregator
			w.Header().Set(envelope.RefusedHeader, "true")
		}
		s.serve(handler, w, req, from)
	})
}

// serve has the handler serve the request, in a session for watches if the aggregator asks for that. No handler sees the header of
// sessions.
func (s *senders) serve(handler http.Handler, w http.ResponseWriter, req *http.Request, from sender) {
	if value, ok := req.Header[envelope.WatchesHeader]; ok {
		delete(req.Header, envelope.WatchesHeader)
		switch {
		case !from.aggregator || len(value) != 1:
		case watches.IsOpen(value[0]):
			if from.self {
				s.sessions.Open(w, req)
				return
			}
		default:
			var finish func()
			w, finish = s.sessions.Join(w, req, value[0])
			defer finish()
		}
	}
	handler.ServeHTTP(w, req)
}

// authenticate returns the user that withSender found. It has no opinion on direct clients.
func authenticate(req *http.Request) (*authenticator.Response, bool, error) {
	deepstack.Grow() // the timeout handler has started a goroutine
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
		return &authenticator.Response{User: from.user}, true, nil
	}
	return nil, false, nil
}
