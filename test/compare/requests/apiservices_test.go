// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"
	missingService  = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.missing.example.com"},
		"spec":{"group":"missing.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10,
		"insecureSkipTLSVerify":true,"service":{"namespace":"compared","name":"missing"}}}`
)

// apiServices changes APIServices: those that the aggregator keeps and those of users.
var apiServices = []request{
	get(apiServicesPath).called("APIServices with those of custom resources"),
	get(apiServicesPath).accept(tableType).called("table of APIServices with those of custom resources"),
	post(apiServicesPath, missingService),
	post(apiServicesPath, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.local.example.com"},
		"spec":{"group":"local.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10}}`).called("create a local APIService of an unknown group"),
	del(apiServicesPath + "/v1.batch?dryRun=All").ignoringBody(),
}

// afterAPIServices returns when the aggregator knows that the server of the APIService is missing.
func (s *side) afterAPIServices(ctx context.Context) error {
	return s.waitForOK(ctx, apiServicesPath+"/v1.missing.example.com", `"ServiceNotFound"`)
}

// missingServer uses an API whose server is not there.
var missingServer = []request{
	get(apiServicesPath + "/v1.missing.example.com"),
	get(apiServicesPath + "/v1.missing.example.com").accept(tableType),
	get(apiServicesPath + "/v1.local.example.com"),
	patch(mergePatch, apiServicesPath+"/v1.missing.example.com?dryRun=All", `{"spec":{"versionPriority":0}}`),
	patch(mergePatch, apiServicesPath+"/v1.missing.example.com?dryRun=All", `{"spec":{"group":"other.example.com"}}`).called("change the group of an APIService"),
	patch(mergePatch, apiServicesPath+"/v1.missing.example.com?dryRun=All&fieldValidation=Warn", `{"spec":{"unknown":1}}`),
	apply("me", apiServicesPath+"/v1.missing.example.com?dryRun=All&force=true", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nspec: {versionPriority: 11}\n"),
	get("/apis/missing.example.com"),
	get("/apis/missing.example.com/v1"),
	get("/apis/missing.example.com/v1/things"),
	get("/apis/missing.example.com/v1/things").as(nobody),
	get("/apis/missing.example.com/v1/things").as(anonymous),
	get("/apis/missing.example.com/v1/things").accept(protobufType),
	post("/apis/missing.example.com/v1/things", `{}`),
	get("/apis/missing.example.com/v2/things"),
	get("/apis/local.example.com"),
	get("/apis/local.example.com/v1"),
	get("/apis/local.example.com/v1/things"),
	get("/apis").called("groups with a missing server"),
	get("/apis").accept(discoveryV2).called("aggregated discovery with a missing server"),
	get("/apis").accept(discoveryV2Beta1).called("old aggregated discovery with a missing server"),
	get("/openapi/v3").called("OpenAPI v3 with a missing server"),
	get("/openapi/v3/apis/missing.example.com/v1"),
	get("/readyz").called("readyz with a missing server"),
	del(apiServicesPath + "/v1.missing.example.com").ignoringBody(),
	del(apiServicesPath + "/v1.local.example.com").ignoringBody(),
}

// waitAuthorized returns when a user may read a path.
func (s *side) waitAuthorized(ctx context.Context, user, path string) error {
	return framework.Poll(ctx, s.Name+" lets "+user+" read "+path, func(ctx context.Context) error {
		a, err := get(path).as(user).do(ctx, s)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("answer %d: %s", a.status, a.body)
		}
		return err
	})
}
