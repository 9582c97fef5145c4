// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
)

// removal takes away a group, and one of two versions of another.
var removal = []request{
	del(crds + "/planets.space.example.com").ignoringBody(),
	patch(jsonPatch, crds+"/widgets.example.com", `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`).ignoringBody(),
}

// afterRemoval returns when no document lists what was removed.
func (s *side) afterRemoval(ctx context.Context) error {
	for _, path := range []string{
		crds + "/planets.space.example.com",
		apiServicesPath + "/v2beta1.space.example.com",
		apiServicesPath + "/v1beta1.example.com",
	} {
		if err := s.waitForStatus(ctx, path, http.StatusNotFound); err != nil {
			return err
		}
	}
	return s.waitForgotten(ctx, []document{
		{get("/apis"), []string{"space.example.com", "example.com/v1beta1"}},
		{get("/apis").accept(discoveryV2), []string{"space.example.com", "example.com/v1beta1"}},
		{get("/apis/example.com"), []string{"example.com/v1beta1"}},
		{get("/openapi/v2"), []string{"com.example.space", "com.example.v1beta1"}},
		{get("/openapi/v3"), []string{"space.example.com"}}, // stock keeps documents of versions that are no longer served
	})
}

// document is one that names what is served.
type document struct {
	request request
	// removed are texts that it has no longer when it is up to date.
	removed []string
}

// waitForgotten returns when documents name nothing that was removed.
func (s *side) waitForgotten(ctx context.Context, documents []document) error {
	return framework.Poll(ctx, s.Name+" documents no removed resources", func(ctx context.Context) error {
		for _, document := range documents {
			a, err := document.request.do(ctx, s)
			if err != nil {
				return err
			}
			for _, text := range document.removed {
				if strings.Contains(string(a.body), text) {
					return fmt.Errorf("%s still has %s", document.request, text)
				}
			}
		}
		return nil
	})
}

// removed reads what is left.
var removed = []request{
	get("/apis"),
	get("/apis").accept(discoveryV2),
	get("/apis").accept(discoveryV2Beta1),
	get("/apis/space.example.com"),
	get("/apis/space.example.com/v2beta1"),
	get("/apis/space.example.com/v2beta1/planets"),
	get("/apis/example.com"),
	get("/apis/example.com/v1"),
	get("/apis/example.com/v1beta1"),
	get("/apis/example.com/v1beta1/namespaces/compared/widgets/first"),
	get(widgets + "/first"),
	get(apiServicesPath),
	get(crds),
	get("/openapi/v2"),
	get("/openapi/v3"),
	get("/openapi/v3/apis/space.example.com/v2beta1"),
}
