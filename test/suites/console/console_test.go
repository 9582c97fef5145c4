// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

var (
	environment *framework.Environment
	fleet       *framework.Fleet
	// east is the other cluster beside the hub.
	east *framework.Stock
	// administrator is the kubeconfig of one.
	administrator string
	// issuer is one whose users the hub accepts.
	issuer *loginIssuer
	// noAccounts lets pods be created without the controllers that make service accounts.
	noAccounts = []string{"--disable-admission-plugins=ServiceAccount"}
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		environment = env
		if path, _ := chromium(); path == "" {
			return nil // each test reports why
		}
		// The fleet starts later, and so stops earlier: a kube-apiserver with open watches takes long to stop.
		var err error
		if east, err = env.StartStock(ctx, framework.StockOptions{Args: noAccounts}); err != nil {
			return err
		}
		if issuer, err = startIssuer(env.Dir); err != nil {
			return err
		}
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
			{Name: "core-0", Args: append(issuer.flags(), noAccounts...)}, {Name: "extensions-0"}, {Name: "aggregator-0"},
			{Name: "search-0", Binary: env.Binary("tripod-search"), Args: []string{
				"--database=sqlite:" + filepath.Join(env.Dir, "search.db"), "--member-allow=loopback", "--history-ttl=1h",
			}},
		}})
		if err != nil {
			return err
		}
		for _, cluster := range []*framework.Cluster{east.Cluster, fleet.Cluster} {
			if err := createShop(ctx, cluster); err != nil {
				return err
			}
		}
		return addEast(ctx)
	})
}

// shop are objects of a small application.
const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {currency: euro}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: shop, labels: {app: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template: {metadata: {labels: {app: front}}, spec: {containers: [{name: c, image: "example.com/front:1.4"}]}}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec: {selector: {app: front}, ports: [{port: 80}]}
`

// owned are what controllers would make of the Deployment. UIDs follow.
const owned = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: front-6c8, namespace: shop, labels: {app: front}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: front, uid: %s}]}
spec:
  selector: {matchLabels: {app: front}}
  template: {metadata: {labels: {app: front}}, spec: {containers: [{name: c, image: "example.com/front:1.4"}]}}
`

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: front-6c8-x, namespace: shop, labels: {app: front}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: front-6c8, uid: %s}]}
spec: {containers: [{name: c, image: "example.com/front:1.4"}], volumes: [{name: v, configMap: {name: settings}}], automountServiceAccountToken: false}
`

func createShop(ctx context.Context, cluster *framework.Cluster) error {
	if err := cluster.Create(ctx, shop); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		return err
	}
	front, err := client.AppsV1().Deployments("shop").Get(ctx, "front", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := cluster.Create(ctx, fmt.Sprintf(owned, front.UID)); err != nil {
		return err
	}
	set, err := client.AppsV1().ReplicaSets("shop").Get(ctx, "front-6c8", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return cluster.Create(ctx, fmt.Sprintf(pod, set.UID))
}

// addEast has search copy the other cluster, and returns when it has both.
func addEast(ctx context.Context) error {
	dir, err := os.MkdirTemp(environment.Dir, "users")
	if err != nil {
		return err
	}
	if administrator, err = fleet.UserKubeconfig(dir, "ann"); err != nil {
		return err
	}
	config, err := framework.PortableKubeconfig(east.Admin())
	if err != nil {
		return err
	}
	if err := fleet.Create(ctx, fmt.Sprintf(`
apiVersion: cluster.clusterpedia.io/v1alpha2
kind: PediaCluster
metadata: {name: east}
spec:
  kubeconfig: %s
  syncResources:
  - {group: "", resources: [configmaps, namespaces, pods, services]}
  - {group: apps, resources: [deployments, replicasets]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: searches-everything}
rules: [{apiGroups: [clusterpedia.io], resources: [resources], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: searches-everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: searches-everything}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-settings, namespace: shop}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [settings], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads-settings, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-settings}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tom}]
`, base64.StdEncoding.EncodeToString(config))); err != nil {
		return err
	}
	for _, cluster := range []string{"hub", "east"} {
		if err := framework.Poll(ctx, "search has the pod of "+cluster, func(ctx context.Context) error {
			return copied(ctx, cluster, "/api/v1/namespaces/shop/pods/front-6c8-x")
		}); err != nil {
			return err
		}
	}
	return nil
}

// createOnce creates an object of east, unless a run of the same test (-count) has created it already.
func createOnce(t *testing.T, object string) {
	t.Helper()
	if err := east.Create(t.Context(), object); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

// copied returns an error if search does not have an object.
func copied(ctx context.Context, cluster, path string) error {
	client, err := kubernetes.NewForConfig(fleet.Admin())
	if err != nil {
		return err
	}
	return client.RESTClient().Get().AbsPath("/apis/clusterpedia.io/v1beta1/resources/clusters/" + cluster + path).Do(ctx).Error()
}

// TestAWordLeadsToObjectsAndTheirRelations goes by keyboard and links from a word to objects of two clusters, to their owners, their history, and
// the same object elsewhere.
func TestAWordLeadsToObjectsAndTheirRelations(t *testing.T) {
	b := open(t, administrator)
	b.do(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "Skip to the content", evaluate[string](b, `document.activeElement.innerText`), "the first stop of the keyboard")
	began := time.Now()
	b.do(chromedp.SendKeys("#q", "front shop"+kb.Enter), chromedp.WaitVisible(`//h1[normalize-space()="Results"]`))
	t.Logf("results after %s", time.Since(began))
	rows := strings.Join(b.rows(), "\n")
	for _, cluster := range []string{"hub", "east"} {
		for _, object := range []string{"Deployment front", "ReplicaSet front-6c8", "Pod front-6c8-x", "Service front"} {
			assert.Contains(t, rows, cluster+" shop "+object)
		}
	}
	assert.NotContains(t, rows, "settings")
	assert.Regexp(t, `east: \d+s`, b.text(), "the age of each copy")
	b.examine("results")

	b.visit(searchFor("kind:Pod cluster:east namespace:shop"))
	require.Len(t, b.rows(), 1)
	assert.Regexp(t, `^east shop front-6c8-x 0/1 Pending 0 \d+`, b.rows()[0], "the columns of the cluster")
	b.follow("front-6c8-x", "Pod front-6c8-x")
	assert.Contains(t, b.text(), "image: example.com/front:1.4")
	b.follow("ReplicaSet shop/front-6c8", "ReplicaSet front-6c8")
	b.follow("Deployment shop/front", "Deployment front")
	b.follow("Pod shop/front-6c8-x", "Pod front-6c8-x")
	b.follow("ConfigMap shop/settings", "ConfigMap settings")
	b.follow("Pod shop/front-6c8-x", "Pod front-6c8-x")
	b.follow("Service shop/front", "Service front")
	b.follow("Pod shop/front-6c8-x", "Pod front-6c8-x")
	assert.Regexp(t, `(?s)Owners\s.*ReplicaSet shop/front-6c8\s.*Deployment shop/front\s.*Selected by\s.*Service shop/front\s.*Mounts\s.*ConfigMap shop/settings`, b.text())
	b.examine("object")
	b.follow("Deployment shop/front", "Deployment front")
	b.follow("compare", "front in two clusters")
	assert.Contains(t, b.text(), "Lines with − are only in east, lines with + only in hub")
	b.examine("compare")
}

func TestTheHistoryOfAnObjectHasDiffs(t *testing.T) {
	b := open(t, administrator)
	client, err := kubernetes.NewForConfig(east.Admin())
	require.NoError(t, err)
	name := framework.UniqueName("prices")
	require.NoError(t, east.Create(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {tea: '3'}}", name)))
	for _, price := range []string{"4", "5"} {
		was := copiedRevision(t, name)
		_, err := client.CoreV1().ConfigMaps("shop").Patch(t.Context(), name, types.MergePatchType, []byte(`{"data": {"tea": "`+price+`"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		framework.Eventually(t, "search has the change", func(context.Context) error {
			if copiedRevision(t, name) == was {
				return fmt.Errorf("it has revision %s", was)
			}
			return nil
		})
	}
	b.visit(searchFor("kind:cm name:" + name))
	b.follow(name, "ConfigMap "+name)
	changes := evaluate[[]string](b, `[...document.querySelectorAll("details:has(.diff)")].map(d => { d.open = true; return d.innerText })`)
	require.Len(t, changes, 3, "%q", changes)
	assert.Contains(t, changes[0], "Changed")
	assert.Contains(t, changes[0], "-  tea: \"4\"")
	assert.Contains(t, changes[0], "+  tea: \"5\"")
	assert.Contains(t, changes[1], "-  tea: \"3\"")
	assert.Contains(t, changes[2], "Created")
	b.shoot("history")
	b.do(chromedp.Click(`(//a[starts-with(normalize-space(), "As it was then")])[2]`), chromedp.WaitVisible(`//p[contains(., "As it was at")]`))
	assert.Contains(t, run(b, chromedp.Text("pre.yaml")), `tea: "4"`)
}

// copiedRevision returns the resourceVersion of a ConfigMap in search, or nothing if search does not have it.
func copiedRevision(t *testing.T, name string) (revision string) {
	t.Helper()
	config := fleet.Admin()
	config.Host += "/apis/clusterpedia.io/v1beta1/resources/clusters/east"
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	framework.Eventually(t, "search has "+name, func(ctx context.Context) error {
		found, err := client.CoreV1().ConfigMaps("shop").Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			revision = found.ResourceVersion
		}
		return err
	})
	return revision
}

func TestAReaderSeesOnlyWhatRightsShow(t *testing.T) {
	kubeconfig, err := fleet.UserKubeconfig(t.TempDir(), "tom")
	require.NoError(t, err)
	b := open(t, kubeconfig)
	framework.Eventually(t, "tom sees the settings of the hub", func(context.Context) error {
		b.visit("")
		if rows := b.rows(); len(rows) != 1 || !strings.HasPrefix(rows[0], "hub shop ConfigMap settings ") {
			return fmt.Errorf("got %q", rows)
		}
		return nil
	})
	text := b.text()
	assert.Contains(t, text, "1 object.")
	assert.Contains(t, text, "You read as tom")
	assert.Contains(t, text, "Objects that you may not read are left out")
	assert.NotContains(t, text, "east: ", "a cluster in which tom may see nothing")
	b.follow("settings", "ConfigMap settings")
	text = b.text()
	assert.Contains(t, text, "currency: euro")
	assert.NotContains(t, text, "east")
	assert.NotContains(t, text, "front-6c8-x")

	for _, cluster := range []string{"hub", "east"} {
		b.visit("object?cluster=" + cluster + "&version=v1&resource=pods&namespace=shop&name=front-6c8-x")
		assert.Contains(t, b.text(), "This page cannot be shown")
		assert.NotContains(t, b.text(), "example.com/front")
	}
	b.visit(searchFor("front"))
	assert.Empty(t, b.rows())
	assert.Contains(t, b.text(), "0 objects.")
	b.examine("reader")
}

// hostile is an object that would run scripts in a careless page. U+202E turns the text after it around.
const hostile = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile", "namespace": "shop",
"labels": {"x": "javascript.alert"}, "annotations": {"link": "javascript:alert(1)", "tag": "<script>alert(2)</script>", "image": "\"><img src=x onerror=alert(3)>",
"style": "</pre><style>body{display:none}</style>", "iframe": "<iframe src=https://evil.example.com></iframe>"}},
"data": {"a": "{{alert(4)}}</script><svg onload=alert(5)>", "turned": "exe.\u202etxt"}}`

func TestHostileTextRunsNoScript(t *testing.T) {
	createOnce(t, hostile)
	framework.Eventually(t, "search has the object", func(ctx context.Context) error {
		return copied(ctx, "east", "/api/v1/namespaces/shop/configmaps/hostile")
	})
	b := open(t, administrator)
	for _, path := range []string{
		"object?cluster=east&version=v1&resource=configmaps&namespace=shop&name=hostile",
		searchFor(`kind:ConfigMap name:hostile`),
		searchFor(`"<script>alert(1)</script>" "\"><img src=x onerror=alert(2)>"`),
		searchFor(`"javascript:alert(1)"`),
		searchFor(`kind:<img/src=x/onerror=alert(3)>`),
		"object?cluster=%3Cscript%3Ealert(1)%3C/script%3E&version=v1&resource=pods&name=x",
	} {
		b.visit(path)
		count := evaluate[struct{ Scripts, Foreign, Links int }](b, `({
			Scripts: document.querySelectorAll("script, iframe, object, embed, style, base, [style], svg").length,
			Foreign: [...document.querySelectorAll("img, link")].filter(e => !(e.src || e.href).startsWith(location.origin)).length,
			Links: [...document.links].filter(a => a.protocol !== "http:" || a.host !== location.host).length})`)
		assert.Zero(t, count, path)
		handlers := `[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length`
		assert.Zero(t, evaluate[int](b, handlers), path)
	}
	b.visit("object?cluster=east&version=v1&resource=configmaps&namespace=shop&name=hostile")
	text := b.text()
	assert.Contains(t, text, "<script>alert(2)</script>", "it is shown as it is")
	assert.Contains(t, text, "exe.[U+202E]txt")

	// The second wall: what a mistake of a template would let through does not run either.
	evaluate[chromedp.Void](b, `document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=\"document.title = 'pwned'\"><a id=bad href=\"javascript:document.title='pwned'\">x</a>")
		document.getElementById("bad").click()`)
	title := evaluate[string](b, `new Promise(done => setTimeout(() => done(document.title), 0))`, chromedp.EvalAwaitPromise)
	assert.Equal(t, "ConfigMap hostile - east - Tripod console", title)
}

// TestUpServesTheConsole has the console beside an instance, whose replicas it knows.
func TestUpServesTheConsole(t *testing.T) {
	path := requireChromium(t)
	tripod, err := environment.StartTripod(t.Context(), framework.TripodOptions{Args: []string{"--search", "--console", "--core-replicas=2"}})
	require.NoError(t, err)
	b := openAt(t, path, printedAddress(t, tripod.Process))
	assert.Contains(t, b.text(), "You read as kubernetes-admin")
	service, _ := b.explained("list", "pods", "shop", "", "")
	assert.Equal(t, "core", service)
	assert.Contains(t, b.text(), "names tripod-system/core.")
	// They are "ready" as long as the console has not read what the aggregators say of them.
	framework.Eventually(t, "both replicas serve", func(context.Context) error {
		b.explained("list", "pods", "shop", "", "")
		states := evaluate[[]string](b,
			`[...document.querySelectorAll("tbody tr")].map(r => r.cells[0].innerText + " " + r.cells[1].innerText)`)
		if !slices.Equal(states, []string{"core-0 serving", "core-1 serving"}) {
			return fmt.Errorf("they are %q", states)
		}
		return nil
	})

	require.NoError(t, tripod.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 0, tripod.Process.ExitCode())
	output, err := exec.CommandContext(t.Context(), environment.Binary("tripod"), "up", "--console", "--data-dir", t.TempDir()).CombinedOutput()
	assert.Error(t, err)
	assert.Equal(t, "Error: --console shows what search has copied: add --search\n", string(output))
}

// TestTheConsoleStartsAndEnds looks at what people and scripts see without a browser.
func TestTheConsoleStartsAndEnds(t *testing.T) {
	requireChromium(t)
	process, err := environment.Start(framework.Command{
		Name: framework.UniqueName("console"), Path: environment.Binary("tripod"), Args: []string{"console", "--kubeconfig", administrator},
	})
	require.NoError(t, err)
	at := printedAddress(t, process)
	// Signed in, but the client keeps no cookie, and refused the second time.
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		response, err := http.Get(at)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, code, response.StatusCode, "without a cookie: %s", body)
	}
	require.NoError(t, process.Signal(syscall.SIGINT))
	assert.Equal(t, 0, process.ExitCode())

	for name, arguments := range map[string][]string{
		"has no context \"none\"": {"--kubeconfig", administrator, "--context", "none"},
		"want 0 to 65535":         {"--port", "70000"},
		"no such file":            {"--kubeconfig", filepath.Join(t.TempDir(), "none")},
	} {
		output, err := exec.CommandContext(t.Context(), environment.Binary("tripod"), append([]string{"console"}, arguments...)...).CombinedOutput()
		assert.Error(t, err)
		assert.Contains(t, string(output), name)
		assert.Equal(t, 1, strings.Count(string(output), "\n"), "one line: %s", output)
	}
}
