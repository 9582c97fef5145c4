// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationapi "k8s.io/kubernetes/pkg/apis/authorization"
	authorizationconversion "k8s.io/kubernetes/pkg/apis/authorization/v1"
	"k8s.io/kubernetes/pkg/apis/authorization/validation"

	"github.com/tripod-k8s/tripod/services/search/rights"
)

// Clients such as k9s, Headlamp and "kubectl auth" ask an API server what their user may do, and who that is. Below the prefix of clusters,
// search answers by the rules that it applies itself: they are about the copies, not about the clusters.

// reviews are the resources of such questions, and what answers them.
var reviews = map[schema.GroupVersionResource]func(*Handler, context.Context, *review) (runtime.Object, error){
	authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"): (*Handler).accessReview,
	authorizationv1.SchemeGroupVersion.WithResource("selfsubjectrulesreviews"):  (*Handler).rulesReview,
	authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"):      (*Handler).subjectReview,
}

// review is such a question about a cluster, or about all.
type review struct {
	cluster string
	reader  user.Info
	by      *judge
	body    []byte
	decoder runtime.Decoder
}

// isReview reports whether a nested request asks about its own user.
func isReview(n *Nested) bool {
	return reviews[n.Resource()] != nil && n.Info.Namespace == "" && n.Info.Name == "" && n.Info.Subresource == ""
}

// judge decides about requests of a reader as if they came now.
type judge struct{ *hubAuthorizer }

// review answers a question of a user about itself.
func (h *Handler) review(w http.ResponseWriter, req *http.Request, n *Nested) error {
	ctx := req.Context()
	if n.Info.Verb != "create" {
		return apierrors.NewMethodNotSupported(n.Resource().GroupResource(), n.Info.Verb)
	}
	codecs := clientgoscheme.Codecs.WithoutConversion()
	serializer, err := negotiation.NegotiateInputSerializer(req, false, codecs)
	if err != nil {
		return err
	}
	const most = 64 << 10
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	if errors.As(err, new(*http.MaxBytesError)) {
		return apierrors.NewRequestEntityTooLargeError("a review has at most 64 KiB")
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	reader, _ := request.UserFrom(ctx)
	by := judgeOf(ctx)
	if reader == nil || by == nil {
		return apierrors.NewInternalError(errors.New("the rights of the reader cannot be decided"))
	}
	gv := n.Resource().GroupVersion()
	result, err := reviews[n.Resource()](h, ctx, &review{n.Cluster, reader, by, body, codecs.DecoderToVersion(serializer.Serializer, gv)})
	if err != nil {
		return err
	}
	responsewriters.WriteObjectNegotiated(codecs, negotiation.DefaultEndpointRestrictions, gv, w, req, http.StatusCreated, result, false)
	return nil
}

// into reads the body of the request.
func (r *review) into(object runtime.Object) error {
	kind, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err == nil {
		_, _, err = r.decoder.Decode(r.body, &kind[0], object)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// accessReview answers whether search would answer a request.
func (h *Handler) accessReview(ctx context.Context, r *review) (runtime.Object, error) {
	asked, internal := &authorizationv1.SelfSubjectAccessReview{}, &authorizationapi.SelfSubjectAccessReview{}
	if err := r.into(asked); err != nil {
		return nil, err
	}
	if err := authorizationconversion.Convert_v1_SelfSubjectAccessReview_To_authorization_SelfSubjectAccessReview(asked, internal,
		nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateSelfSubjectAccessReview(internal); len(errs) > 0 {
		return nil, apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview").GroupKind(), "", errs)
	}
	var err error
	if of := asked.Spec.ResourceAttributes; of != nil {
		asked.Status, err = r.by.resource(ctx, r.reader, r.cluster, of)
	} else {
		asked.Status, err = r.by.document(ctx, r.reader, r.cluster, asked.Spec.NonResourceAttributes)
	}
	return asked, err
}

// resource decides about a request for objects.
func (j *judge) resource(ctx context.Context, reader user.Info, cluster string,
	of *authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	switch {
	case !slices.Contains(rights.Verbs, of.Verb):
		return authorizationv1.SubjectAccessReviewStatus{Reason: "search has copies of objects: it answers the verbs get, list and watch only"},
			nil
	case of.Subresource != "":
		return authorizationv1.SubjectAccessReviewStatus{Reason: "search has copies of objects, and no subresources"}, nil
	}
	decision, reason, err := j.nested(withRequestState(ctx), authorizer.AttributesRecord{
		User: reader, Verb: of.Verb, Namespace: of.Namespace, APIGroup: of.Group, APIVersion: of.Version, Resource: of.Resource, Name: of.Name,
		ResourceRequest: true,
	}, &Nested{Cluster: cluster, Info: &request.RequestInfo{}})
	return statusOf(decision, reason), err
}

// document decides about a request for something else than objects.
func (j *judge) document(ctx context.Context, reader user.Info, cluster string,
	of *authorizationv1.NonResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	if of.Verb != "get" && of.Verb != "head" {
		return authorizationv1.SubjectAccessReviewStatus{Reason: "search only reads"}, nil
	}
	decision, reason, err := j.next.Authorize(ctx, authorizer.AttributesRecord{User: reader, Verb: of.Verb, Path: prefixOf(cluster) + of.Path})
	return statusOf(decision, reason), err
}

func statusOf(decision authorizer.Decision, reason string) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authorizer.DecisionAllow,
		Denied: decision == authorizer.DecisionDeny, Reason: reason}
}

// documents are the paths besides those of objects.
var documents = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi/v3", "/openapi/v3/*", versionPath, "/healthz", "/livez", "/readyz"}

// rulesReview lists the rules by which search answers requests in a namespace.
func (h *Handler) rulesReview(ctx context.Context, r *review) (runtime.Object, error) {
	asked := &authorizationv1.SelfSubjectRulesReview{}
	if err := r.into(asked); err != nil {
		return nil, err
	}
	if asked.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	status, err := r.by.rules(ctx, r.reader, r.cluster, asked.Spec.Namespace)
	asked.Status = status
	return asked, err
}

// rules returns the rules for a reader.
func (j *judge) rules(ctx context.Context, reader user.Info, cluster, namespace string) (authorizationv1.SubjectRulesReviewStatus, error) {
	status := authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{}}
	whole := authorizationv1.ResourceRule{APIGroups: []string{"*"}, Resources: []string{"*"}}
	for _, verb := range rights.Verbs {
		decision, _, err := j.next.Authorize(ctx, questionOf(reader, verb, cluster, ""))
		if err != nil {
			return status, err
		}
		if decision == authorizer.DecisionAllow {
			whole.Verbs = append(whole.Verbs, verb)
		}
	}
	if len(whole.Verbs) > 0 {
		status.ResourceRules = append(status.ResourceRules, whole)
	}
	if len(whole.Verbs) < len(rights.Verbs) {
		accessSet, err := j.hubAuthorizer.rights.AccessSet(ctx, reader, "list", named(cluster)...)
		if err != nil {
			return status, err
		}
		rules, complete := accessSet.Rules(cluster, namespace)
		for _, rule := range rules {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if !complete {
			status.Incomplete, status.EvaluationError = true, "these are not all rules: there are too many, or search does not know all grants of "+
				"the cluster that it is part of"
		}
	}
	decision, _, err := j.next.Authorize(ctx, authorizer.AttributesRecord{User: reader, Verb: "get", Path: prefixOf(cluster) + versionPath})
	if decision == authorizer.DecisionAllow && err == nil {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: []string{"get"},
			NonResourceURLs: documents})
	}
	return status, err
}

// subjectReview returns the user, as authentication returned it.
func (h *Handler) subjectReview(_ context.Context, r *review) (runtime.Object, error) {
	asked := &authenticationv1.SelfSubjectReview{}
	if err := r.into(asked); err != nil {
		return nil, err
	}
	extra := map[string]authenticationv1.ExtraValue{}
	for name, values := range r.reader.GetExtra() {
		extra[name] = values
	}
	asked.CreationTimestamp = metav1.Now()
	asked.Status.UserInfo = authenticationv1.UserInfo{Username: r.reader.GetName(), UID: r.reader.GetUID(), Groups: r.reader.GetGroups(),
		Extra: extra}
	return asked, nil
}
