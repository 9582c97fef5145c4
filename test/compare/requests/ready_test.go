// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// bootstrapped are the objects that an API server makes for itself after it has reported that it is ready.
var bootstrapped = []string{
	"/api/v1/namespaces/default",
	"/api/v1/namespaces/kube-system",
	"/api/v1/namespaces/kube-public",
	"/api/v1/namespaces/kube-node-lease",
	"/api/v1/namespaces/default/services/kubernetes",
	"/api/v1/namespaces/default/endpoints/kubernetes",
	"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
	"/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
	"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin",
	"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all",
	"/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
}

// waitBootstrapped returns when an API server has made what it makes for itself.
func (s *side) waitBootstrapped(ctx context.Context) error {
	for _, path := range bootstrapped {
		if err := s.waitForOK(ctx, path, ""); err != nil {
			return err
		}
	}
	return s.waitAPIServicesAvailable(ctx)
}

// waitForOK returns when a path answers 200 with a body that has text in it.
func (s *side) waitForOK(ctx context.Context, path, text string) error {
	return framework.Poll(ctx, s.Name+" has "+path, func(ctx context.Context) error {
		a, err := get(path).do(ctx, s)
		if err != nil {
			return err
		}
		if a.status != http.StatusOK || !bytes.Contains(a.body, []byte(text)) {
			return fmt.Errorf("answer %d without %q (%d bytes)", a.status, text, len(a.body))
		}
		return nil
	})
}

// waitForStatus returns when a path answers with a status.
func (s *side) waitForStatus(ctx context.Context, path string, status int) error {
	return framework.Poll(ctx, fmt.Sprintf("%s answers %d to %s", s.Name, status, path), func(ctx context.Context) error {
		a, err := get(path).do(ctx, s)
		if err == nil && a.status != status {
			err = fmt.Errorf("answer %d", a.status)
		}
		return err
	})
}

type condition struct{ Type, Status string }

func isTrue(conditions []condition, kind string) bool {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition.Status == "True"
		}
	}
	return false
}

func (s *side) waitAPIServicesAvailable(ctx context.Context) error {
	return framework.Poll(ctx, s.Name+" has every APIService available", func(ctx context.Context) error {
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct{ Conditions []condition }
			}
		}
		if err := s.read(ctx, "/apis/apiregistration.k8s.io/v1/apiservices", &list); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("there are no APIServices")
		}
		for _, item := range list.Items {
			if !isTrue(item.Status.Conditions, "Available") {
				return fmt.Errorf("%s is not available", item.Metadata.Name)
			}
		}
		return nil
	})
}

// waitCustomResources returns when the custom resources of the fixtures are served and documented.
func (s *side) waitCustomResources(ctx context.Context) error {
	for _, name := range []string{"widgets.example.com", "planets.space.example.com", "ghosts.unseen.example.com"} {
		err := framework.Poll(ctx, s.Name+" has established "+name, func(ctx context.Context) error {
			var crd struct {
				Status struct{ Conditions []condition }
			}
			if err := s.read(ctx, crds+"/"+name, &crd); err != nil {
				return err
			}
			if !isTrue(crd.Status.Conditions, "Established") {
				return fmt.Errorf("conditions %v", crd.Status.Conditions)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		widgets: `"items":[]`, planets: `"items":[]`,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com":            "",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.example.com":       "",
		"/apis/apiregistration.k8s.io/v1/apiservices/v2beta1.space.example.com": "",
		"/apis":                           `"space.example.com"`,
		"/apis/example.com":               `"v1beta1"`,
		"/openapi/v3":                     "apis/space.example.com/v2beta1",
		"/openapi/v3/apis/example.com/v1": "Widget",
		crds + "/gadgets.example.com":     `"NamesAccepted","status":"False"`,
	} {
		if err := s.waitForOK(ctx, path, text); err != nil {
			return err
		}
	}
	if err := s.waitAPIServicesAvailable(ctx); err != nil {
		return err
	}
	return s.waitDocumented(ctx)
}

// afterQuota returns when the quota in the namespace limited refuses objects of core and of extensions.
func (s *side) afterQuota(ctx context.Context) error {
	for path, body := range map[string]string{
		"/api/v1/namespaces/limited/configmaps":           `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"polled"}}`,
		"/apis/example.com/v1/namespaces/limited/widgets": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"polled"},"spec":{"color":"red"}}`,
	} {
		err := framework.Poll(ctx, s.Name+" refuses "+path, func(ctx context.Context) error {
			a, err := post(path+"?dryRun=All", body).do(ctx, s)
			if err == nil && a.status != http.StatusForbidden {
				err = fmt.Errorf("answer %d", a.status)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waitDocumented returns when aggregated discovery and OpenAPI v2 have the custom resources.
func (s *side) waitDocumented(ctx context.Context) error {
	return framework.Poll(ctx, s.Name+" documents the custom resources", func(ctx context.Context) error {
		for _, r := range []request{get("/apis").accept(discoveryV2), get("/openapi/v2")} {
			a, err := r.do(ctx, s)
			if err != nil {
				return err
			}
			for _, text := range []string{`"Planet"`, `"Widget"`} {
				if !strings.Contains(string(a.body), text) {
					return fmt.Errorf("%s does not have %s", r, text)
				}
			}
		}
		return nil
	})
}

// both calls something for both sides at the same time.
func (c *comparison) both(ctx context.Context, call func(context.Context, *side) error) error {
	return both.Each(ctx, [2]*side{c.stock, c.tripod}, call)
}
