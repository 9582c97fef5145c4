// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/services/list"
)

const (
	// routeTimeout is how long aggregators may take to lead clients elsewhere, and routeInterval how often that is looked at.
	routeTimeout  = time.Minute
	routeInterval = 100 * time.Millisecond
	// claimTimeout is how long aggregators may take to report what a service serves.
	claimTimeout = 15 * time.Second
	// claimed is the condition of an APIService that names the other services that serve the same.
	claimed = "Conflict"
)

// apiServices returns the names of the APIServices of the group.
func (m *mover) apiServices() []string {
	var names []string
	for _, definition := range m.definitions {
		for _, version := range definition.Spec.Versions {
			if name := version.Name + "." + m.Group; version.Served && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// ownerOf returns the backend that an APIService names, which is extensions for its partitions, too.
func ownerOf(service *apiregistrationv1.APIService) string {
	at := service.Spec.Service
	if at == nil {
		return list.Extensions
	}
	if at.Namespace != trust.Namespace {
		return at.Namespace + "/" + at.Name
	}
	if _, partition := addresses.PartitionOf(at.Name); partition {
		return list.Extensions
	}
	return at.Name
}

// claims reports whether an APIService says that a service serves the same.
func claims(service *apiregistrationv1.APIService, name string) bool {
	for _, condition := range service.Status.Conditions {
		if string(condition.Type) != claimed || condition.Status != apiregistrationv1.ConditionTrue {
			continue
		}
		_, names, _ := strings.Cut(condition.Message, "is also claimed by ")
		names, _, _ = strings.Cut(names, ";")
		return slices.Contains(strings.Split(names, " and "), name)
	}
	return false
}

// checkRoute returns why aggregators could not lead clients from extensions to the service.
func (m *mover) checkRoute(ctx context.Context) error {
	client, err := apiregistrationclient.NewForConfig(m.Config)
	if err != nil {
		return err
	}
	for _, name := range m.apiServices() {
		var problem error
		err := wait.PollUntilContextTimeout(ctx, routeInterval, claimTimeout, true, func(ctx context.Context) (bool, error) {
			service, err := client.APIServices().Get(ctx, name, metav1.GetOptions{})
			switch owner := list.Extensions; {
			case err != nil:
				problem = fmt.Errorf("cannot read the APIService %s: %w", name, err)
				return false, nil
			case ownerOf(service) != owner:
				return false, fmt.Errorf("the APIService %s leads to %s, and not to extensions", name, ownerOf(service))
			case !claims(service, m.service.name):
				problem = fmt.Errorf("the condition %s of the APIService %s does not name %s: the aggregators give it other groups only, or do "+
					"not see that it serves this one", claimed, name, m.service.name)
				return false, nil
			}
			return true, nil
		})
		if wait.Interrupted(err) && problem != nil {
			return problem
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lead has the APIServices of the group name another backend. The aggregators accept that, because the backend serves the group, too.
func (m *mover) lead(ctx context.Context, to string) error {
	client, err := apiregistrationclient.NewForConfig(m.Config)
	if err != nil {
		return err
	}
	for _, name := range m.apiServices() {
		var problem error
		leads := 0
		err := wait.PollUntilContextTimeout(ctx, routeInterval, routeTimeout, true, func(ctx context.Context) (bool, error) {
			service, err := client.APIServices().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				problem = err
				return false, nil //nolint:nilerr // the next attempt may succeed
			}
			if ownerOf(service) == to {
				leads++
				return leads > 1, nil // no aggregator has changed it back
			}
			leads = 0
			service.Spec.Service = nil
			if to != list.Extensions {
				port := int32(443)
				service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: trust.Namespace, Name: to, Port: &port}
			}
			if err := m.keeper.Held(ctx); err != nil {
				return false, err
			}
			if _, err = client.APIServices().Update(ctx, service, metav1.UpdateOptions{}); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				return false, err
			}
			problem = err
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("cannot lead clients to %s by the APIService %s (run this again to go on): %w", to, name, joined(err, problem))
		}
	}
	return nil
}

// joined returns the more special one of two errors.
func joined(err, problem error) error {
	if problem != nil {
		return problem
	}
	return err
}

// forbidden is the error for a user who may not use the paths by which objects move.
func forbidden(group string, err error) error {
	return fmt.Errorf("you need the right for the nonResourceURLs %s and %[1]s/*, with the verbs get, post and put: %[2]w",
		migration.PathOf(group, ""), err)
}

// checkRights returns which right the user lacks. Otherwise a move could stop in the middle.
func (m *mover) checkRights(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(m.Config)
	if err != nil {
		return err
	}
	reviews := map[string]authorizationv1.SelfSubjectAccessReviewSpec{}
	for _, verb := range []string{"get", "update"} {
		reviews[verb+" apiservices.apiregistration.k8s.io"] = authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: "apiregistration.k8s.io", Resource: "apiservices"},
		}
	}
	for _, definition := range m.definitions {
		plural := definition.Spec.Names.Plural
		reviews["list "+definition.Name] = authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: m.Group, Resource: plural},
		}
		for _, verb := range []string{"get", "post", "put"} {
			path := migration.PathOf(m.Group, plural)
			reviews[verb+" the nonResourceURL "+path] = authorizationv1.SelfSubjectAccessReviewSpec{
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
			}
		}
	}
	for what, spec := range reviews {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("cannot ask for your rights: %w", err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("you need the right to %s", what)
		}
	}
	return nil
}
