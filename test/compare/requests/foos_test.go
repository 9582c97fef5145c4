// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// foos are defined in groups of Kubernetes.
var foos = []struct {
	group, version string
	// ofCore is set if core serves the group-version itself.
	ofCore bool
}{
	{group: "rbac.authorization.k8s.io", version: "v1", ofCore: true},
	{group: "coordination.k8s.io", version: "v1", ofCore: true},
	{group: "storage.k8s.io", version: "v9"},
	{group: "internal.apiserver.k8s.io", version: "v1alpha1"}, // disabled by default
}

// fooDefinitions defines them.
func fooDefinitions() []request {
	var requests []request
	for _, foo := range foos {
		requests = append(requests, post(crds, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foos.%s
  annotations: {api-approved.kubernetes.io: "unapproved, experimental-only"}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: foos, singular: foo, kind: Foo, listKind: FooList}
  versions: [{name: %s, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]`, foo.group, foo.version)).
			called("define Foo in "+foo.group).ignoringBody())
	}
	return requests
}

// afterFooDefinitions returns when all documents have what they will have.
func (s *side) afterFooDefinitions(ctx context.Context) error {
	for path, text := range map[string]string{
		"/openapi/v3": "apis/internal.apiserver.k8s.io/v1alpha1",
		"/apis/internal.apiserver.k8s.io/v1alpha1/foos": "FooList",
	} {
		if err := s.waitForOK(ctx, path, text); err != nil {
			return err
		}
	}
	for _, foo := range foos {
		if err := s.waitForOK(ctx, "/openapi/v2", "/apis/"+foo.group+"/"+foo.version+"/foos"); err != nil {
			return err
		}
		if foo.ofCore {
			continue
		}
		if err := s.waitForOK(ctx, apiServicesPath+"/"+foo.version+"."+foo.group, `"Local"`); err != nil {
			return err
		}
		if err := s.waitForOK(ctx, "/apis/"+foo.group, foo.version); err != nil {
			return err
		}
	}
	return framework.Poll(ctx, s.Name+" discovers a Foo", func(ctx context.Context) error {
		a, err := get("/apis").accept(discoveryV2).do(ctx, s)
		if err == nil && !bytes.Contains(a.body, []byte("internal.apiserver.k8s.io")) {
			err = errors.New("none")
		}
		return err
	})
}

// fooRequests asks for the Foos, and for what they are beside.
func fooRequests() []request {
	requests := []request{
		get("/"), get("/apis"), get("/apis").accept(discoveryV2), get("/apis").accept(discoveryV2Beta1),
		get("/openapi/v2"), get("/openapi/v3"), get(apiServicesPath), get(rbac + "/clusterroles"),
	}
	for _, foo := range foos {
		gv := "/apis/" + foo.group + "/" + foo.version
		document := get("/openapi/v3" + gv)
		if foo.ofCore {
			document = document.ignoringBody() // stock sometimes has one and sometimes the other
		}
		requests = append(requests, document, get("/apis/"+foo.group), get(gv), get(gv+"/foos"), get(gv+"/namespaces/compared/foos/one"),
			post(gv+"/namespaces/compared/foos", fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Foo","metadata":{"name":"one"}}`, foo.group, foo.version)))
	}
	return requests
}

func fooRemoval() []request {
	var requests []request
	for _, foo := range foos {
		requests = append(requests, del(crds+"/foos."+foo.group).ignoringBody())
	}
	return requests
}

func (s *side) afterFooRemoval(ctx context.Context) error {
	for _, foo := range foos {
		if err := s.waitForRemoval(ctx, crds+"/foos."+foo.group); err != nil {
			return err
		}
		if foo.ofCore {
			continue
		}
		if err := s.waitForStatus(ctx, apiServicesPath+"/"+foo.version+"."+foo.group, http.StatusNotFound); err != nil {
			return err
		}
	}
	return s.waitForgotten(ctx, []document{
		{get("/openapi/v2"), []string{"foos"}},
		{get("/openapi/v3"), []string{"storage.k8s.io/v9", "internal.apiserver.k8s.io"}},
		{get("/apis").accept(discoveryV2), []string{"foos"}},
	})
}

// waitForRemoval changes a definition that stays: if kube-apiserver's finalizer meets a conflict after an error, it looks again only when the
// definition changes, or after minutes (k8s.io/apiextensions-apiserver/pkg/controller/finalizer).
func (s *side) waitForRemoval(ctx context.Context, path string) error {
	changed := time.Now()
	return framework.Poll(ctx, s.Name+" removes "+path, func(ctx context.Context) error {
		a, err := get(path).do(ctx, s)
		if err != nil || a.status == http.StatusNotFound {
			return err
		}
		if now := time.Now(); now.Sub(changed) > 5*time.Second {
			changed = now
			_, err = patch(mergePatch, path, fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, now.Unix())).do(ctx, s)
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}
