// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// caller is a person with a kubeconfig.
type caller struct {
	*testing.T
	file   string
	config *clientcmdapi.Config
	// logins has a line for each time that the program for logins has run.
	logins string
}

// newCaller returns a caller whose current context is that of the fleet.
func newCaller(t *testing.T) *caller {
	t.Helper()
	dir := t.TempDir()
	c := &caller{T: t, file: filepath.Join(dir, "kubeconfig"), config: clientcmdapi.NewConfig(), logins: filepath.Join(dir, "logins")}
	c.add("platform", fleet.Admin())
	c.config.CurrentContext = "platform"
	return c
}

// in returns the same caller in a part of the test.
func (c *caller) in(t *testing.T) *caller {
	other := *c
	other.T = t
	return &other
}

// add adds a context with the login of a user.
func (c *caller) add(name string, user *rest.Config) {
	c.Helper()
	c.config.Clusters[name] = &clientcmdapi.Cluster{Server: user.Host, CertificateAuthority: user.CAFile}
	c.config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: user.CertFile, ClientKey: user.KeyFile}
	c.config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
}

// logsInByProgram makes a program return the login of a context.
func (c *caller) logsInByProgram(name string, user *rest.Config) {
	c.Helper()
	require.NoError(c, rest.LoadTLSFiles(user))
	credential, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
		"status": map[string]any{"clientCertificateData": string(user.CertData), "clientKeyData": string(user.KeyData)},
	})
	require.NoError(c, err)
	answer := filepath.Join(c.TempDir(), "credential.json")
	require.NoError(c, os.WriteFile(answer, credential, 0o600))
	c.config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode, Command: "sh",
		Args: []string{"-c", `echo login >> "$0"; cat "$1"`, c.logins, answer},
	}}
}

// run runs a command of tripod.
func (c *caller) run(args ...string) (out, progress string, err error) {
	c.Helper()
	require.NoError(c, clientcmd.WriteToFile(*c.config, c.file))
	command := exec.CommandContext(c.Context(), environment.Binary("tripod"), append([]string{"search"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.file, "HOME="+filepath.Dir(c.file))
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

func (c *caller) succeeds(args ...string) string {
	c.Helper()
	out, progress, err := c.run(args...)
	require.NoError(c, err, "%s%s", progress, out)
	return out
}

// fails returns the error that a command prints, which is one line.
func (c *caller) fails(args ...string) string {
	c.Helper()
	out, progress, err := c.run(args...)
	require.Error(c, err, out)
	_, message, found := strings.Cut(progress, "Error: ")
	require.True(c, found, progress)
	assert.Equal(c, 1, strings.Count(message, "\n"), message)
	return message
}

// timesLoggedIn is how often the program has run.
func (c *caller) timesLoggedIn() int {
	text, err := os.ReadFile(c.logins)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(c, err)
	}
	return bytes.Count(text, []byte("\n"))
}

// startMember starts a kube-apiserver that has its namespaces.
func startMember(t *testing.T) *framework.Stock {
	t.Helper()
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "kube-system exists", func(ctx context.Context) error {
		_, err := clientOf(t, stock.Admin()).CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	return stock
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// leftOf names what tripod search clusters add has made and that is still there.
func leftOf(t *testing.T, config *rest.Config) (names []string) {
	t.Helper()
	client, mine := clientOf(t, config), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=tripod"}
	note := func(kind string, objects []metav1.Object, err error) {
		require.NoError(t, err)
		for _, object := range objects {
			names = append(names, kind+" "+object.GetName())
		}
	}
	accounts, err := client.CoreV1().ServiceAccounts("").List(t.Context(), mine)
	note("account", objectsOf(accounts.Items), err)
	secrets, err := client.CoreV1().Secrets("").List(t.Context(), mine)
	note("secret", objectsOf(secrets.Items), err)
	clusterRoles, err := client.RbacV1().ClusterRoles().List(t.Context(), mine)
	note("cluster role", objectsOf(clusterRoles.Items), err)
	clusterBindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), mine)
	note("cluster role binding", objectsOf(clusterBindings.Items), err)
	roles, err := client.RbacV1().Roles("").List(t.Context(), mine)
	note("role", objectsOf(roles.Items), err)
	bindings, err := client.RbacV1().RoleBindings("").List(t.Context(), mine)
	note("role binding", objectsOf(bindings.Items), err)
	return names
}

func objectsOf[T any, P interface {
	*T
	metav1.Object
}](items []T) (all []metav1.Object) {
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}

// added is what the command prints.
type added struct {
	Name, ServiceAccount, Secret string
	TokenExpires                 time.Time
	Changes                      []struct{ Where, Action, Kind, Name string }
}

func addedBy(t *testing.T, out string) (all []added) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(out), &all), out)
	return all
}

// tokenOf returns the token that search has for a cluster.
func tokenOf(t *testing.T, one added) (*corev1.Secret, string) {
	t.Helper()
	namespace, name, _ := strings.Cut(one.Secret, "/")
	secret, err := clientOf(t, fleet.Admin()).CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return secret, string(secret.Data["token"])
}

func TestAFleetIsAddedByItsContexts(t *testing.T) {
	t.Parallel()
	east, west := startMember(t), startMember(t)
	require.NoError(t, east.Create(t.Context(), fmt.Sprintf(configMapNamed, "of-fleet-east")))
	c := newCaller(t)
	c.add("fleet-east", east.Admin())
	c.logsInByProgram("fleet-east", east.Admin())
	c.add("Admin of West", west.Admin())
	add := []string{"clusters", "add", "--secret-namespace", "platform", "--context", "fleet-east", "--context", "fleet-west=Admin of West"}

	out := c.succeeds(append(add, "--dry-run")...)
	assert.Contains(t, out, "fleet-east: ClusterRole tripod-search-")
	assert.Contains(t, out, "fleet-west would be added\n")
	assert.Equal(t, 1, c.timesLoggedIn())
	assert.Empty(t, leftOf(t, east.Admin()))
	assert.Empty(t, leftOf(t, west.Admin()))

	all := addedBy(t, c.succeeds(append(add, "-o", "json")...))
	require.Len(t, all, 2)
	assert.Equal(t, 2, c.timesLoggedIn(), "the program runs once for each command")
	assert.Equal(t, []string{"fleet-east", "fleet-west"}, []string{all[0].Name, all[1].Name})
	assert.WithinDuration(t, time.Now().Add(7*24*time.Hour), all[0].TokenExpires, time.Hour)
	assert.Len(t, leftOf(t, east.Admin()), 5)
	awaitList(t, resources+"/clusters/fleet-east/api/v1/configmaps?names=of-fleet-east", "default/of-fleet-east")
	awaitList(t, resources+"/clusters/fleet-west/api/v1/namespaces?names=kube-system", "kube-system")

	secret, token := tokenOf(t, all[0])
	searcher := east.Anonymous()
	searcher.BearerToken = token
	mayLittle(t, clientOf(t, searcher), all[0].ServiceAccount)

	again := addedBy(t, c.succeeds(append(add, "-o", "json")...))
	for _, change := range again[0].Changes {
		assert.Equal(t, "updated", change.Action, change.Kind)
	}
	renewed, _ := tokenOf(t, again[0])
	assert.NotEqual(t, secret.Data["token"], renewed.Data["token"], "the command is repeated for a new token")

	out = c.succeeds("kubeconfig")
	assert.Contains(t, out, "fleet-east: kubectl --cluster search-fleet-east get pods -A\n")
	assert.Contains(t, out, "fleet-west: kubectl --cluster fleet-west get pods -A\n")
	c.config = clientcmd.GetConfigFromFileOrDie(c.file)
	assert.Equal(t, "platform", c.config.Contexts["search-fleet-east"].AuthInfo)
	assert.Equal(t, east.URL, c.config.Clusters["fleet-east"].Server)

	c.config.Clusters["Admin of West"].Server = east.URL
	assert.Contains(t, c.fails("clusters", "remove", "fleet-west"), "and context Admin of West is that of "+east.URL)
	c.config.Clusters["Admin of West"].Server = west.URL
	// A writer of PediaClusters cannot keep the credentials.
	annotate := func(key, value string) {
		t.Helper()
		patchCluster(t, "fleet-east", fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, key, value))
	}
	annotate("tripod-k8s.io/account", `null`)
	assert.Contains(t, c.fails("clusters", "remove", "fleet-east"), "no longer says in which namespace: remove the service account tripod-search-")
	annotate("tripod-k8s.io/account", strconv.Quote(all[0].ServiceAccount))
	assert.Equal(t, "fleet-east is removed\nfleet-west is removed\n", c.succeeds("clusters", "remove", "fleet-east", "fleet-west"))
	assert.Empty(t, leftOf(t, east.Admin()))
	assert.Empty(t, leftOf(t, west.Admin()))
	awaitClusters(t, false, "fleet-east", "fleet-west")
	namespace, name, _ := strings.Cut(all[0].Secret, "/")
	_, err := clientOf(t, fleet.Admin()).CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
	framework.Eventually(t, "the token is good for nothing", func(ctx context.Context) error { // kube-apiserver remembers tokens for 10 seconds
		if _, err := clientOf(t, searcher).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

// mayLittle checks what an account of search may do.
func mayLittle(t *testing.T, client kubernetes.Interface, account string) {
	t.Helper()
	namespace, name, _ := strings.Cut(account, "/")
	_, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	_, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	_, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "no"}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
}

func TestAContextThatCannotBeAddedLeavesNothing(t *testing.T) {
	t.Parallel()
	member := startMember(t)
	c := newCaller(t)
	c.add("sound", member.Admin())
	weak, err := member.UserConfig("weak")
	require.NoError(t, err)
	c.add("weak", weak)
	c.add("anonymous", member.Admin())
	c.config.AuthInfos["anonymous"] = &clientcmdapi.AuthInfo{}
	c.add("away", &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: member.Admin().TLSClientConfig})
	// weak may do everything but read more than config maps: the cluster must not let it give search more than that.
	require.NoError(t, member.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: weak}
rules:
- {apiGroups: [""], resources: [serviceaccounts], verbs: [get, create, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: weak}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weak}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: weak}]
`))
	addCluster(t, "taken", kubeconfig(t, fleet.Admin()), map[string]any{"group": "", "resources": []any{"namespaces"}})

	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"an unknown context", `no context "unknown"`, []string{"--context", "unknown", "--context", "sound"}},
		{"no login", "context anonymous has no login", []string{"--context", "anonymous"}},
		{"no cluster", "connection refused", []string{"--context", "away"}},
		{"no right to make a role", "ClusterRole tripod-search-", []string{"--context", "weak"}},
		{"the name of another cluster", "there is a cluster taken", []string{"--context", "taken=sound"}},
		{"a name that cannot be one", "write --context NAME=sound", []string{"--context", "Sound One=sound"}},
		{"one name twice", "two contexts have the name sound", []string{"--context", "sound", "--context", "sound=weak"}},
		{"a token that lives for a moment", "write 10m0s to", []string{"--context", "sound", "--token-lifetime", "1m"}},
		{"a name for two", "write --context NAME=CONTEXT", []string{"name", "--context", "sound", "--context", "weak"}},
		{"no context", "name a --context", []string{"name"}},
		{"a dry run of credentials", "needs --context", []string{"name", "--kubeconfig", c.file, "--dry-run"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Contains(t, c.in(t).fails(append([]string{"clusters", "add", "--secret-namespace", "platform"}, test.args...)...), test.want)
			assert.Empty(t, leftOf(t, member.Admin()))
		})
	}

	// Search reads Secrets of another namespace than the command writes.
	assert.Contains(t, c.fails("clusters", "add", "elsewhere", "--context", "sound"), "search must run with --secret-namespace tripod-search")
	assert.Empty(t, leftOf(t, member.Admin()))
	_, err = pediaClusters().Get(t.Context(), "elsewhere", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)

	// An object of another owner has the name.
	all := addedBy(t, c.succeeds("clusters", "add", "--secret-namespace", "platform", "--context", "sound", "--dry-run", "-o", "json"))
	_, name, _ := strings.Cut(all[0].ServiceAccount, "/")
	require.NoError(t, member.Create(t.Context(), fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s, namespace: kube-system}}`, name)))
	assert.Contains(t, c.fails("clusters", "add", "--secret-namespace", "platform", "--context", "sound"), "there is a Role kube-system/"+name)
	assert.Empty(t, leftOf(t, member.Admin()))
}

// signed returns a token of a service account that kube-apiserver could have made before.
func signed(t *testing.T, of *framework.Stock, account string, issued, expires time.Time) string {
	t.Helper()
	namespace, name, _ := strings.Cut(account, "/")
	object, err := clientOf(t, of.Admin()).CoreV1().ServiceAccounts(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(of.PKI, "sa.key"))
	require.NoError(t, err)
	const issuer = "https://kubernetes.default.svc.cluster.local"
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: issuer, Subject: "system:serviceaccount:" + namespace + ":" + name, Audience: jwt.Audience{issuer},
		IssuedAt: jwt.NewNumericDate(issued), NotBefore: jwt.NewNumericDate(issued), Expiry: jwt.NewNumericDate(expires),
	}).Claims(map[string]any{"kubernetes.io": map[string]any{
		"namespace": namespace, "serviceaccount": map[string]any{"name": name, "uid": object.UID},
	}}).Serialize()
	require.NoError(t, err)
	return token
}

func TestSearchRenewsTheTokensOfItsAccounts(t *testing.T) {
	t.Parallel()
	member := startMember(t)
	c := newCaller(t)
	c.add("renewed", member.Admin())
	add := []string{"clusters", "add", "--secret-namespace", "platform", "--context", "renewed", "-o", "json"}
	one := addedBy(t, c.succeeds(add...))[0]
	awaitCondition(t, "renewed", v1alpha2.TokenRenewed, metav1.ConditionTrue, "the token expires at ")
	replace := func(token string) {
		secret, _ := tokenOf(t, one)
		secret.Data["token"] = []byte(token)
		_, err := clientOf(t, fleet.Admin()).CoreV1().Secrets(secret.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		require.NoError(t, err)
	}

	expires := time.Now().Add(time.Hour)
	young := signed(t, member, one.ServiceAccount, time.Now().Add(-20*time.Minute), expires)
	old := signed(t, member, one.ServiceAccount, time.Now().Add(-time.Hour), time.Now().Add(time.Hour+time.Minute))
	replace(young)
	awaitCondition(t, "renewed", v1alpha2.TokenRenewed, metav1.ConditionTrue, "the token expires at "+expires.UTC().Format(time.RFC3339))
	_, now := tokenOf(t, one)
	assert.Equal(t, young, now, "a third of its life is not over")

	replace(old)
	framework.Eventually(t, "search has renewed the token", func(context.Context) error {
		if _, now = tokenOf(t, one); now == old {
			return errors.New("it is the old one")
		}
		return nil
	})
	searcher := member.Anonymous()
	searcher.BearerToken = now
	review, err := clientOf(t, searcher).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "system:serviceaccount:"+strings.ReplaceAll(one.ServiceAccount, "/", ":"), review.Status.UserInfo.Username)
	require.NoError(t, member.Create(t.Context(), fmt.Sprintf(configMapNamed, "with-another-token")))
	awaitList(t, resources+"/clusters/renewed/api/v1/configmaps?names=with-another-token", "default/with-another-token")

	namespace, name, _ := strings.Cut(one.ServiceAccount, "/")
	require.NoError(t, clientOf(t, member.Admin()).RbacV1().RoleBindings(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	framework.Eventually(t, "the account may not renew its token", func(ctx context.Context) error {
		_, err := clientOf(t, searcher).CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	replace(signed(t, member, one.ServiceAccount, time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour)))
	awaitCondition(t, "renewed", v1alpha2.TokenRenewed, metav1.ConditionFalse, "cannot renew the token in secret "+one.Secret+": serviceaccounts")
	c.succeeds(add...)
	awaitCondition(t, "renewed", v1alpha2.TokenRenewed, metav1.ConditionTrue, "")
	c.succeeds("clusters", "remove", "renewed")
	awaitClusters(t, false, "renewed")
}
