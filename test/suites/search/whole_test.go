// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// more are objects of kinds that inventory.Objects lacks, and texts, numbers and gaps that a copy could change.
const more = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: takeover
  labels: {a: ""}
  annotations: {example.com/text: "<&> \u2028 \t é 🚢", kubectl.kubernetes.io/last-applied-configuration: "{}"}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i, env: [{name: A, value: ""}], resources: {requests: {cpu: 1500m, memory: 1e3}}}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: takeover}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: takeover}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: takeover}
involvedObject: {kind: Pod, name: web-1, namespace: takeover}
reason: Scheduled
type: Normal
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader, namespace: takeover}
spec: {holderIdentity: a, renewTime: "2026-11-25T04:00:00.123456Z"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: takeover}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: takeover}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: takeover}
spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  names: {kind: Ship, plural: ships, singular: ship}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Draught, type: number, jsonPath: .spec.draught}, {name: Flags, type: string, jsonPath: ".spec.flags"}]
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const ship = `{"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}, "spec": {
	"draught": 7.50, "weight": 9007199254740993, "tiny": 1e-7, "huge": 1e21, "flags": ["x", {"y": null}], "none": null, "empty": {}, "list": [], "text": "\u0000\u2028</a>"}}`

// side is one of the two that are compared.
type side struct {
	*http.Client
	prefix string
}

func newSide(t *testing.T, config *rest.Config, below string) *side {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return &side{client, config.Host + below}
}

// read returns the answer to a GET in a representation, as JSON would decode it.
func (s *side) read(ctx context.Context, path, accept string) (code int, document any, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.prefix+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", accept)
	answer, err := s.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && strings.HasPrefix(answer.Header.Get("Content-Type"), "application/yaml") {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return 0, nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&document)
	return answer.StatusCode, document, err
}

// representations are those in which both are read, of single objects and of lists.
var representations = map[string]string{
	"application/json": "application/json", "application/yaml": "application/yaml", tableType: tableType,
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": metadataType,
	"application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": "application/yaml;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}

const (
	tableType    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	metadataType = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Differences that are meant, which normal takes away:
//   - A copy has no managedFields and no annotation with what was last applied: they can be as large as the object, and searches for them have no use.
//   - It has the annotations with its cluster and with the resourceVersion there. Its own resourceVersion is a revision of search, and so is that of a list.
//   - A list always has the number of objects that follow, also if none do. An empty list is [], not null, and an empty token is left out.
//   - Objects in lists of built-in kinds have their kind and apiVersion.
//   - A table begins with the column of the cluster. Ages are those of the moment. kube-apiserver has a table of
//     FlowSchemas in the order of their precedence, search in that of all lists.
func normal(document any) any {
	switch d := document.(type) {
	case []any:
		for i := range d {
			d[i] = normal(d[i])
		}
	case map[string]any:
		for name := range d {
			d[name] = normal(d[name])
		}
		if metadata, ok := d["metadata"].(map[string]any); ok {
			normalMetadata(metadata, isList(d))
		}
		if isList(d) && d["items"] == nil {
			d["items"] = []any{}
		}
		if items, _ := d["items"].([]any); isList(d) {
			for _, item := range items {
				if object, ok := item.(map[string]any); ok {
					delete(object, "kind")
					delete(object, "apiVersion")
				}
			}
		}
		if d["kind"] == "Table" {
			delete(d, "items")
			if d["rows"] == nil {
				d["rows"] = []any{}
			}
			normalTable(d)
		}
	}
	return document
}

func isList(document map[string]any) bool {
	kind, _ := document["kind"].(string)
	_, hasMetadata := document["metadata"]
	return kind == "Table" || strings.HasSuffix(kind, "List") && hasMetadata
}

func normalMetadata(metadata map[string]any, isList bool) {
	if isList {
		delete(metadata, "resourceVersion")
		delete(metadata, "remainingItemCount")
		if metadata["continue"] == "" {
			delete(metadata, "continue")
		}
	}
	delete(metadata, "managedFields")
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return
	}
	if version, has := annotations[v1beta1.ResourceVersionAnnotation]; has {
		metadata["resourceVersion"] = version
	}
	for _, name := range []string{v1beta1.ResourceVersionAnnotation, v1beta1.ClusterAnnotation, "kubectl.kubernetes.io/last-applied-configuration"} {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// normalTable leaves out the columns that the time of a request changes, and that of the cluster.
func normalTable(table map[string]any) {
	columns, _ := table["columnDefinitions"].([]any)
	var kept []int
	var some []any
	for i := range columns {
		column := columns[i].(map[string]any)
		if column["name"] == "Cluster" || column["type"] == "date" || slices.Contains([]any{"Age", "Last Seen", "First Seen", "Duration", "Created At"}, column["name"]) {
			continue
		}
		kept, some = append(kept, i), append(some, column)
	}
	table["columnDefinitions"] = some
	rows, _ := table["rows"].([]any)
	for _, row := range rows {
		all := row.(map[string]any)["cells"].([]any)
		var cells []any
		for _, i := range kept {
			cells = append(cells, all[i])
		}
		row.(map[string]any)["cells"] = cells
	}
	if slices.ContainsFunc(some, func(column any) bool { return column.(map[string]any)["name"] == "MatchingPrecedence" }) {
		slices.SortFunc(rows, func(a, b any) int { return strings.Compare(nameIn(a), nameIn(b)) })
	}
}

// nameIn returns the first cell of a row.
func nameIn(row any) string { return fmt.Sprint(row.(map[string]any)["cells"].([]any)[0]) }

// sameAt returns what differs at a path, or an error if the member itself is not the same before and after.
func sameAt(ctx context.Context, member, copied *side, path, accept string) error {
	wantCode, want, err := member.read(ctx, path, accept)
	if err != nil {
		return err
	}
	gotCode, got, err := copied.read(ctx, path, accept)
	if err != nil {
		return err
	}
	if wantCode != gotCode {
		return fmt.Errorf("the member answers %d, search %d: %v", wantCode, gotCode, got)
	}
	if want, got = normal(want), normal(got); !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s", cmp.Diff(want, got))
	}
	return nil
}

// eventuallySame compares until both are the same, or for long enough that a change in the member would be copied.
func eventuallySame(t *testing.T, member, copied *side, path, accept string) {
	t.Helper()
	if accept == tableType && os.Getenv("MEMBER") != "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	assert.NoError(t, framework.Poll(ctx, path+" as "+accept+" is the same", func(ctx context.Context) error { return sameAt(ctx, member, copied, path, accept) }))
}

// waitTimeout is for changes that are on their way.
const waitTimeout = 20 * time.Second

// notCopied are resources of which search has no copy, and why.
var notCopied = map[string]string{
	"componentstatuses":         "no API server can watch them",
	"bindings":                  "they cannot be read",
	"localsubjectaccessreviews": "they cannot be read",
	"selfsubjectaccessreviews":  "they cannot be read",
	"selfsubjectrulesreviews":   "they cannot be read",
	"subjectaccessreviews":      "they cannot be read",
	"selfsubjectreviews":        "they cannot be read",
	"tokenreviews":              "they cannot be read",
}

// TestACopyIsTheMember reads everything of a member from both sides: each resource as a list, and each of its objects, in each representation. MEMBER is another
// kube-apiserver to try as a member, such as one of an older version. Then tables are not compared: search has the columns of its own version.
func TestACopyIsTheMember(t *testing.T) {
	t.Parallel()
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{
		Binary: os.Getenv("MEMBER"), Args: []string{"--disable-admission-plugins=ServiceAccount", "--runtime-config=api/all=true"},
	})
	require.NoError(t, err)
	require.NoError(t, stock.Create(t.Context(), strings.ReplaceAll(inventory.Objects, "IMAGE", "i")+"---"+more))
	framework.Eventually(t, "a custom resource", func(ctx context.Context) error { return stock.Create(ctx, ship) })
	addCluster(t, "whole", kubeconfig(t, stock.Admin()), map[string]any{"group": "*", "resources": []any{"*"}},
		map[string]any{"group": "", "resources": []any{"secrets", "events"}}, map[string]any{"group": "events.k8s.io", "resources": []any{"events"}},
		map[string]any{"group": "coordination.k8s.io", "resources": []any{"leases"}})
	member, copied := newSide(t, stock.Admin(), ""), newSide(t, fleet.Admin(), resources+"/clusters/whole")

	groups, lists, err := discovery.NewDiscoveryClientForConfigOrDie(stock.Admin()).ServerGroupsAndResources()
	require.NoError(t, err)
	preferred := map[schema.GroupResource]string{}
	for _, group := range groups {
		for _, version := range group.Versions {
			for _, list := range lists {
				for _, r := range list.APIResources {
					of := schema.GroupResource{Group: group.Name, Resource: r.Name}
					if _, has := preferred[of]; !has && list.GroupVersion == version.GroupVersion {
						preferred[of] = version.Version
					}
				}
			}
		}
	}
	compared := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, r := range list.APIResources {
			prefix := "/apis/" + list.GroupVersion
			if gv.Group == "" {
				prefix = "/api/v1"
			}
			switch path := prefix + "/" + r.Name; {
			case strings.Contains(r.Name, "/"):
			case notCopied[r.Name] != "":
				code, _, err := copied.read(t.Context(), path, "application/json")
				require.NoError(t, err)
				assert.NotEqual(t, http.StatusOK, code, "%s is no exception any more", path)
			case preferred[schema.GroupResource{Group: gv.Group, Resource: r.Name}] != gv.Version: // search has the version that the member prefers
				code, _, err := copied.read(t.Context(), path, "application/json")
				require.NoError(t, err)
				assert.Equal(t, http.StatusNotFound, code, path)
			default:
				compared += compareResource(t, member, copied, prefix, r)
			}
		}
	}
	t.Logf("%d objects are the same", compared)
	assert.Greater(t, compared, 100)
}

// compareResource compares a resource and its objects, and returns how many these are. What changes meanwhile is compared again.
func compareResource(t *testing.T, member, copied *side, prefix string, r metav1.APIResource) int {
	t.Helper()
	path := prefix + "/" + r.Name
	framework.Eventually(t, "search has copied "+path, func(ctx context.Context) error { return sameAt(ctx, member, copied, path, metadataType) })
	for _, accept := range representations {
		eventuallySame(t, member, copied, path, accept)
	}
	_, document, err := member.read(t.Context(), path, metadataType)
	require.NoError(t, err)
	text, err := json.Marshal(document)
	require.NoError(t, err)
	var list metav1.PartialObjectMetadataList
	require.NoError(t, json.Unmarshal(text, &list))
	for _, object := range list.Items {
		at := path + "/" + object.Name
		if r.Namespaced {
			at = prefix + "/namespaces/" + object.Namespace + "/" + r.Name + "/" + object.Name
		}
		for accept := range representations {
			eventuallySame(t, member, copied, at, accept)
		}
	}
	return len(list.Items)
}
