// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

const (
	selfSubjectReview       = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	selfSubjectReviews      = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	selfSubjectAccessReview = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
		"spec":{"resourceAttributes":{"verb":"list","group":"example.com","resource":"widgets","namespace":"compared"}}}`
	selfSubjectRulesReview = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"compared"}}`
	authorization          = "/apis/authorization.k8s.io/v1/"
)

// everyUser is the user with the questions that all users may ask.
var everyUser = []string{admin, anonymous, nobody, reader, impersonator, node, invalidToken, emptyToken, basicAuth, serviceAccount, bootstrapToken}

// identities asks, as different users, who they are and what they may do.
var identities = append(forEveryUser(), []request{
	get(widgets).as(serviceAccount),
	get(widgets).as(reader),
	get(configMaps).as(reader),
	get(configMaps).as(reader).accept(tableType),
	get(configMaps).as(serviceAccount).ignoringBody(),

	// Identities that clients claim in headers that are meant for proxies.
	get(configMaps).as(anonymous).header("X-Remote-User", "admin").header("X-Remote-Group", "system:masters"),
	get(configMaps).as(nobody).header("X-Remote-User", "admin").header("X-Remote-Group", "system:masters"),
	post(selfSubjectReviews, selfSubjectReview).as(nobody).header("X-Remote-Extra-Scopes", "all").header("X-Remote-Uid", "1"),
	get(widgets).as(nobody).header("X-Remote-User", "reader").header("X-Remote-Group", "readers"),

	get(configMaps).as(impersonator).header("Impersonate-User", "reader").ignoringBody(),
	get(configMaps).as(impersonator).header("Impersonate-User", "reader").header("Impersonate-Group", "readers").ignoringBody(),
	get(widgets).as(impersonator).header("Impersonate-User", "reader").header("Impersonate-Group", "readers"),
	get(widgets).as(impersonator).header("Impersonate-User", "reader"),
	get(widgets).as(impersonator).header("Impersonate-User", "admin"),
	get(widgets).as(impersonator).header("Impersonate-Group", "readers").called("impersonate a group without a user"),
	get(configMaps).as(impersonator).header("Impersonate-Group", "readers").called("impersonate a group without a user, core"),
	get("/apis").as(impersonator).header("Impersonate-User", "admin"),
	get("/apis").header("Impersonate-User", "nobody"),
	get("/version").header("Impersonate-User", "nobody").header("Impersonate-Group", "unknown"),
	get("/apis/apiregistration.k8s.io/v1/apiservices").header("Impersonate-User", "nobody"),
	get("/apis/apiregistration.k8s.io/v1/apiservices").as(impersonator).header("Impersonate-User", "admin"),
	get(crds).header("Impersonate-User", "nobody"),
	post(selfSubjectReviews, selfSubjectReview).header("Impersonate-User", "jane").header("Impersonate-Group", "a").
		header("Impersonate-Uid", "u-1").header("Impersonate-Extra-Scopes", "x%2fy"),
	post(selfSubjectReviews, selfSubjectReview).header("Impersonate-User", "system:serviceaccount:compared:robot"),
	post(selfSubjectReviews, selfSubjectReview).header("Impersonate-User", "system:anonymous"),

	post("/apis/authentication.k8s.io/v1/tokenreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"nonsense"}}`),
	post("/apis/authentication.k8s.io/v1/tokenreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"`+bootstrapTokenValue+`"}}`).
		called("review a bootstrap token"),
	post(authorization+"subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
		"spec":{"user":"reader","groups":["readers"],"resourceAttributes":{"verb":"get","resource":"configmaps"}}}`),
	post(authorization+"subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
		"spec":{"user":"nobody","nonResourceAttributes":{"verb":"get","path":"/metrics"}}}`).called("review access to a path"),
	post(authorization+"namespaces/compared/localsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1",
		"kind":"LocalSubjectAccessReview","metadata":{"namespace":"compared"},
		"spec":{"user":"reader","resourceAttributes":{"namespace":"compared","verb":"create","resource":"pods"}}}`),

	// The Node authorizer and NodeRestriction.
	get("/api/v1/secrets").as(node),
	get(coreNamespaced + "/secrets/unknown").as(node),
	post("/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-2"}}`).as(node),
	post("/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"}}`).as(node).called("a node registers itself"),
	get("/api/v1/nodes/node-1").as(node),

	get("/.well-known/openid-configuration"),
	get("/.well-known/openid-configuration").as(serviceAccount),
	get("/.well-known/openid-configuration").as(anonymous),
	get("/.well-known/openid-configuration").as(nobody),
	get("/openid/v1/jwks").ignoringBody(), // every cluster has its own keys
	get("/openid/v1/jwks").as(nobody),
}...)

func forEveryUser() []request {
	var requests []request
	for _, user := range everyUser {
		requests = append(requests,
			post(selfSubjectReviews, selfSubjectReview).as(user),
			post(authorization+"selfsubjectaccessreviews", selfSubjectAccessReview).as(user),
			post(authorization+"selfsubjectrulesreviews", selfSubjectRulesReview).as(user),
			get(coreNamespaced+"/secrets").as(user).ignoringBody(),
			get("/apis/example.com/v1/widgets").as(user),
			get("/apis/unknown.example.com/v1/things").as(user),
			get(crds+"/unknown").as(user),
			get("/apis/apiregistration.k8s.io/v1/apiservices/unknown").as(user),
			get("/unknown").as(user),
			get("/livez").as(user),
		)
	}
	return requests
}
