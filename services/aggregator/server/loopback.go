// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
	"github.com/tripod-k8s/tripod/services/list"
)

// What other services want of what they do not serve themselves, for admission mostly, comes to the same address as the requests of
// clients. They ask for the aggregator by its name as a service, and are known by their own certificates.

// serveServices makes the aggregator known to the other services, and them to it.
func (c *Config) serveServices() error {
	files := c.options.ServiceTrust
	own, err := dynamiccertificates.NewDynamicSNIContentFromFiles("service-cert", files.CertFile, files.KeyFile,
		trust.ServerName(list.Aggregator))
	if err != nil {
		return fmt.Errorf("--service-cert-file: %w", err)
	}
	generic := &c.generic.Config
	generic.SecureServing.SNICerts = append(generic.SecureServing.SNICerts, own)
	backends, ca, err := files.BackendAuthenticator()
	if err != nil {
		return err
	}
	c.senders = backends
	return generic.Authentication.ApplyClientCert(ca, generic.SecureServing)
}

// kubeAPIServer is the user that aggregated API servers see when kube-apiserver's loopback client calls them.
var kubeAPIServer = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup}}

// asKubeAPIServer gives a request of a service to an aggregated API server the user that it has with kube-apiserver.
// What the service may ask for was decided before. An additional API service has that user only when it calls a webhook: what else it may
// do is not decided by a list of rules alone.
func (c *webhookCalls) asKubeAPIServer(req *http.Request) *http.Request {
	sender, _ := request.UserFrom(req.Context())
	switch service := trust.ServiceOf(sender); {
	case service == "":
		return req
	case service == trust.UserOf(list.Core), servesCustomResources(service):
	default:
		if calls, err := c.named(service, req.URL.Path); err != nil || !calls || req.Method != http.MethodPost {
			return req
		}
	}
	return req.WithContext(request.WithUser(req.Context(), kubeAPIServer))
}

// untilDiscovered answers 503 to services until the discovery documents of the backends were fetched: a service would take a kind that
// is missing for one that does not exist, and remember it.
func (s *Server) untilDiscovered(discovery http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sender, _ := request.UserFrom(req.Context())
		service := trust.ServiceOf(sender)
		for _, b := range s.backends {
			// Core needs itself alone: its own kinds must be known while others are away.
			needed := b == s.core || trust.UserOf(b.Name()) == service || b == s.extensions && service != trust.UserOf(list.Core)
			if service != "" && needed && !b.discovery.Fetched() {
				status.Unavailable(s.generic.Serializer, w, req, "the API groups are not all known yet")
				return
			}
		}
		discovery.ServeHTTP(w, req)
	})
}
