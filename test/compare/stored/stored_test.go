// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stored compares what kube-apiserver and Tripod have in etcd after the same requests: under the same keys, in the same etcd
// where there are several, in the same encoding, the same values.
package stored

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: shop}
data: {apple: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: shop}
stringData: {said: plainly}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec: {clusterIP: 10.0.0.77, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: shop}
spec:
  selector: {matchLabels: {app: front}}
  template: {metadata: {labels: {app: front}}, spec: {containers: [{name: front, image: front}]}}
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: opened, namespace: shop}
eventTime: "2026-01-01T00:00:00.000000Z"
reportingController: example.com/door
reportingInstance: door-1
action: Open
reason: Opened
type: Normal
regarding: {kind: ConfigMap, namespace: shop, name: prices}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}}
---
` + framework.CRD{Kind: "Widget", Schema: "{type: object, properties: {spec: {type: object, properties: {color: {type: string, default: red}}}}}"}.String() + `---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: shop}
spec: {}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.example.org}
spec: {group: metrics.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: shop, name: front}}
`

// kinds are the prefixes under which what was made is stored, and what is there of the same kind from the start. Keys after them are
// compared, of all authors; but for events, which servers write of themselves when something takes its time.
var kinds = []string{
	"/namespaces/", "/configmaps/shop/", "/secrets/", "/services/", "/deployments/", "/events/shop/opened", "/networkpolicies/", "/clusterroles/",
	"/clusterrolebindings/", "/priorityclasses/", "/flowschemas/", "/apiextensions.k8s.io/", "/example.com/", "/apiregistration.k8s.io/",
}

func TestTheSameIsStored(t *testing.T) {
	for name, test := range map[string]struct {
		prefix string
		// args are further flags. OTHER is the URL of another etcd.
		args []string
	}{
		"by default": {prefix: "/registry"},
		"as JSON":    {prefix: "/registry", args: []string{"--storage-media-type=application/json"}},
		"elsewhere":  {prefix: "/some/where", args: []string{"--etcd-prefix=/some/where"}},
		"in several etcds": {prefix: "/registry", args: []string{
			"--etcd-servers-overrides=/secrets#OTHER,apps/deployments#OTHER,/events#OTHER,apiextensions.k8s.io/customresourcedefinitions#OTHER," +
				"example.com/widgets#OTHER,apiregistration.k8s.io/apiservices#OTHER",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := framework.ForTest(t)
			filled, err := both.Start(t.Context(), func(_ context.Context, tripod bool) (contents, error) {
				return fill(t, env, tripod, test.prefix, test.args)
			})
			require.NoError(t, err)
			stock, tripod := filled[0], filled[1]
			if len(stock) < 100 {
				t.Errorf("only %d values are compared", len(stock))
			}
			for _, key := range slices.Sorted(maps.Keys(stock)) {
				assert.Empty(t, cmp.Diff(stock[key].String(), tripod[key].String()), key)
			}
			for key := range tripod {
				if _, ok := stock[key]; !ok {
					t.Errorf("stock has no %s", key)
				}
			}
		})
	}
}

// contents are the values of several etcds by etcd and key.
type contents map[string]value

// value is a value in etcd: how it is encoded, and its content except for what differs from one cluster to another.
type value struct{ encoding, text string }

func (v value) String() string { return v.encoding + "\n" + v.text }

// fill starts one of the two, makes the objects and returns what is stored then.
func fill(t *testing.T, env *framework.Environment, tripod bool, prefix string, args []string) (contents, error) {
	dir, err := os.MkdirTemp(env.Dir, "other")
	if err != nil {
		return nil, err
	}
	other, err := env.StartEtcd(t.Context(), dir)
	if err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "OTHER", other)
	}
	server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: args})
	if err != nil {
		return nil, err
	}
	if err := server.Create(t.Context(), manifests); err != nil {
		return nil, err
	}
	all := contents{}
	for name, url := range map[string]string{"first": server.EtcdURL, "other": other} {
		for _, kind := range kinds {
			stored, err := framework.Stored(t.Context(), framework.Etcd(t, url), prefix+kind)
			if err != nil {
				return nil, err
			}
			for key, raw := range stored {
				if all[name+" "+key], err = read(raw); err != nil {
					return nil, fmt.Errorf("%s: %w", key, err)
				}
			}
		}
	}
	return all, nil
}

var protobuf = []byte("k8s\x00")

// volatile is what differs from one cluster to another: times, identifiers, and the port that a server has for itself.
var volatile = regexp.MustCompile(`"(uid|creationTimestamp|time|lastTransitionTime|lastUpdateTime|message|resourceVersion|port|targetPort)": ?("[^"]*"|[0-9]{5})`)

func read(raw []byte) (value, error) {
	v, text := value{encoding: "JSON"}, raw
	if bytes.HasPrefix(raw, protobuf) {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw[len(protobuf):]); err != nil {
			return v, err
		}
		v.encoding = "protobuf of " + unknown.APIVersion + " " + unknown.Kind
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return v, err
		}
		if text, err = json.Marshal(object); err != nil {
			return v, err
		}
	}
	text, err := sortManagedFields(text)
	if err != nil {
		return v, err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", " "); err != nil {
		return v, err
	}
	v.text = volatile.ReplaceAllString(pretty.String(), `"$1": "*"`)
	return v, nil
}

// sortManagedFields returns an object as compact JSON with its managed fields in an order of their own. Servers sort them by the second in
// which they were written.
func sortManagedFields(text []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, err
	}
	var object struct {
		Metadata struct{ ManagedFields []json.RawMessage }
	}
	if err := json.Unmarshal(compact.Bytes(), &object); err != nil {
		return nil, err
	}
	var fields []string
	for _, field := range object.Metadata.ManagedFields {
		fields = append(fields, string(field))
	}
	written := strings.Join(fields, ",")
	slices.SortFunc(fields, func(a, b string) int {
		return strings.Compare(volatile.ReplaceAllString(a, ""), volatile.ReplaceAllString(b, ""))
	})
	return []byte(strings.Replace(compact.String(), written, strings.Join(fields, ","), 1)), nil
}
