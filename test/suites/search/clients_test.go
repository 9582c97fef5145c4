// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// below returns a client for the API of a cluster, or of all for [resources].
func below(config *rest.Config, prefix string) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.Host += prefix
	return kubernetes.NewForConfigOrDie(config)
}

// TestClientsAskAboutThemselves asks as k9s, Headlamp and "kubectl auth" do.
func TestClientsAskAboutThemselves(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: asks-about-herself}
rules:
- {apiGroups: [clusterpedia.io], resources: [resources/deployments.apps], resourceNames: [hub], verbs: [list, watch]}
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: asks-about-herself}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: asks-about-herself}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: asker}]
`))
	config, err := fleet.UserConfig("asker")
	require.NoError(t, err)
	for prefix, protobuf := range map[string]bool{hub: false, resources: true} {
		if protobuf {
			config.ContentType = "application/vnd.kubernetes.protobuf"
		}
		client := below(config, prefix)
		for question, allowed := range map[string]bool{
			"list apps deployments": true, "watch apps deployments": true, "get apps deployments": false, "get  configmaps": true, "delete  configmaps": false, "list  pods": false,
		} {
			parts := strings.Split(question, " ")
			of := &authorizationv1.ResourceAttributes{Verb: parts[0], Group: parts[1], Resource: parts[2], Namespace: "default"}
			framework.Eventually(t, prefix+": "+question, func(ctx context.Context) error {
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
					&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: of}}, metav1.CreateOptions{})
				if prefix == resources && parts[0] == "get" {
					return err // a GET of all clusters is no request that search answers
				}
				if err == nil && answer.Status.Allowed != allowed {
					err = fmt.Errorf("allowed: %t, because %s", answer.Status.Allowed, answer.Status.Reason)
				}
				return err
			})
		}
		who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "asker", who.Status.UserInfo.Username)
	}
	rules, err := below(config, hub).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	var found []string
	for _, r := range rules.Status.ResourceRules {
		found = append(found, strings.Join(r.Verbs, ",")+" "+strings.Join(r.Resources, ","))
	}
	assert.Subset(t, found, []string{"list,watch deployments", "get,list configmaps"})
	_, err = below(config, resources+"/clusters/nowhere").AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

// TestTheVersionOfAClusterIsItsOwn matters to clients that choose by it what they use of an API.
func TestTheVersionOfAClusterIsItsOwn(t *testing.T) {
	t.Parallel()
	own, err := kubernetes.NewForConfigOrDie(fleet.Admin()).Discovery().ServerVersion()
	require.NoError(t, err)
	framework.Eventually(t, "search has the version of the hub", func(context.Context) error {
		copied, err := below(fleet.Admin(), hub).Discovery().ServerVersion()
		if err == nil && *copied != *own {
			err = fmt.Errorf("%+v, not %+v", *copied, *own)
		}
		return err
	})
	_, err = below(fleet.Admin(), resources).Discovery().ServerVersion()
	require.NoError(t, err)
}

// TestABrowserWatches does what Headlamp does: the token of the user is in a subprotocol, because browsers send no other header of their own.
func TestABrowserWatches(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), `
apiVersion: v1
kind: ServiceAccount
metadata: {name: browser, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: browser, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: browser, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: browser}
subjects: [{kind: ServiceAccount, name: browser, namespace: default}]
`))
	client := kubernetes.NewForConfigOrDie(fleet.Admin())
	var token string
	framework.Eventually(t, "a token", func(ctx context.Context) error {
		created, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "browser", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = created.Status.Token
		}
		return err
	})
	tls, err := rest.TLSConfigFor(rest.AnonymousClientConfig(fleet.Admin()))
	require.NoError(t, err)
	at := strings.Replace(fleet.Admin().Host, "https", "wss", 1) + hub + "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Din-a-browser"
	var socket *websocket.Conn
	framework.Eventually(t, "the watch is allowed", func(ctx context.Context) error {
		config, err := websocket.NewConfig(at, "https://headlamp.example.com")
		if err != nil {
			return err
		}
		config.TlsConfig = tls
		config.Protocol = []string{"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)), "base64.binary.k8s.io"}
		socket, err = config.DialContext(ctx)
		return err
	})
	defer socket.Close()
	require.NoError(t, socket.SetDeadline(time.Now().Add(time.Minute)))
	next := func() string {
		var event struct {
			Type   string
			Object metav1.PartialObjectMetadata
		}
		require.NoError(t, websocket.JSON.Receive(socket, &event))
		return event.Type + " " + event.Object.Name
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "in-a-browser", Namespace: "default"}}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "ADDED in-a-browser", next())
	require.NoError(t, client.CoreV1().ConfigMaps("default").Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
	assert.Equal(t, "DELETED in-a-browser", next())
}

func TestLogsAreAtTheCluster(t *testing.T) {
	t.Parallel()
	pods := below(fleet.Admin(), hub).CoreV1().Pods("default")
	_, err := pods.GetLogs("any", &corev1.PodLogOptions{}).Stream(t.Context())
	assert.True(t, apierrors.IsMethodNotSupported(err), "%v", err)
	assert.ErrorContains(t, err, "search has copies of pods, but not their logs: ask cluster hub itself")
}

// TestParametersCountAsInKubernetes sends the same to the cluster and to its copy.
func TestParametersCountAsInKubernetes(t *testing.T) {
	t.Parallel()
	// Where search decides differently, on purpose.
	differs := map[string]string{
		"continue=5":                  "a number is Clusterpedia's form of a token",
		"cluster=x":                   "it resembles a parameter of search",
		"fieldSelector=metadata.name": "search has an operator more: the field exists",
	}
	awaitList(t, hub+"/apis/apps/v1/namespaces/default/deployments?names=web", "default/web")
	client := kubernetes.NewForConfigOrDie(fleet.Admin())
	code := func(path string) int {
		var code int
		client.RESTClient().Get().RequestURI(path).SetHeader("Accept", "application/json").Do(t.Context()).StatusCode(&code)
		return code
	}
	for _, query := range []string{
		"", "_=1", "colour=red", "pretty=perhaps", "limit=-1", "limit=abc", "limit=1.5", "limit=", "limit=0", "limit=99999999999999999999", "timeoutSeconds=-1", "timeoutSeconds=abc", "timeout=5s",
		"resourceVersion=abc", "resourceVersion=-1", "resourceVersion=0", "resourceVersionMatch=Other&resourceVersion=1", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan",
		"resourceVersionMatch=NotOlderThan&resourceVersion=0", "continue=abc", "continue=5", "cluster=x", "labelSelector=a%3Db%3Dc", "labelSelector=a%20b", "labelSelector=%21a", "fieldSelector=metadata.name%3Dx",
		"fieldSelector=metadata.name", "sendInitialEvents=true", "sendInitialEvents=false", "allowWatchBookmarks=true", "allowWatchBookmarks=abc", "watch=false", "watch=0", "includeObject=Other",
	} {
		own, copied := code("/api/v1/namespaces/default/configmaps?"+query), code(hub+"/api/v1/namespaces/default/configmaps?"+query)
		if _, on := differs[query]; on {
			assert.NotEqual(t, own, copied, "%s is no exception any more", query)
			continue
		}
		assert.Equal(t, own, copied, query)
	}
}
