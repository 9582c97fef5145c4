// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schemas generates CustomResourceDefinitions like real ones: 25 KB of schema on average, most of them small and a few very large,
// deeply nested, and consisting mostly of descriptions.
package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	averageBytes = 25_000
	// spread is the standard deviation of the logarithm of sizes.
	spread                = 0.9
	fewestBytes, mostDeep = 1_000, 7
	largestBytes          = 400_000
	perGroup              = 10
	// ofProperty is roughly the size of a property in JSON, without its name, its description and its content.
	ofProperty = 52
)

// Generate returns n definitions in groups of ten, the same at every call.
func Generate(n int) []*apiextensionsv1.CustomResourceDefinition {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	sizes := make([]float64, n)
	sum := 0.0
	for i := range sizes {
		sizes[i] = min(max(math.Exp(random.NormFloat64()*spread), 0.05), 12)
		sum += sizes[i]
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, n)
	for i := range definitions {
		size := sizes[i] / sum * float64(n) * averageBytes
		definitions[i] = definition(i, &generator{random}, int(min(max(size, fewestBytes), largestBytes)))
	}
	return definitions
}

// Read returns the definitions in the YAML and JSON files below a directory.
func Read(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq("\n"+string(data), "\n---") {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal([]byte(document), crd); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if crd.Kind == "CustomResourceDefinition" {
				definitions = append(definitions, crd)
			}
		}
		return nil
	})
	if err == nil && len(definitions) == 0 {
		err = fmt.Errorf("%s has no CustomResourceDefinition", dir)
	}
	return definitions, err
}

// Bytes returns the size of all schemas of a definition.
func Bytes(crd *apiextensionsv1.CustomResourceDefinition) (int, error) {
	sum := 0
	for _, version := range crd.Spec.Versions {
		data, err := json.Marshal(version.Schema)
		if err != nil {
			return 0, err
		}
		sum += len(data)
	}
	return sum, nil
}

func definition(i int, g *generator, size int) *apiextensionsv1.CustomResourceDefinition {
	kind := fmt.Sprintf("%s%s%d", g.noun(), g.noun(), i)
	plural := strings.ToLower(kind) + "s"
	spec, used := g.object(size*4/5, 1)
	status, _ := g.object(size-used, 1)
	group := fmt.Sprintf("group-%d.bench.tripod.example", i/perGroup)
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Description: g.sentence(), Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"apiVersion": {Type: "string", Description: g.sentence()},
						"kind":       {Type: "string", Description: g.sentence()},
						"metadata":   {Type: "object"},
						"spec":       spec,
						"status":     status,
					},
				}},
			}},
		},
	}
}

// generator makes schemas.
type generator struct{ *rand.Rand }

// object returns the schema of an object of about the wanted size, and its actual size.
func (g *generator) object(size, depth int) (apiextensionsv1.JSONSchemaProps, int) {
	o := apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: g.sentence(), Properties: map[string]apiextensionsv1.JSONSchemaProps{},
	}
	left := size - len(o.Description) - 2*ofProperty
	for left > 0 || len(o.Properties) == 0 {
		name := fmt.Sprintf("%s%s%d", strings.ToLower(g.noun()), g.noun(), len(o.Properties))
		property, used := g.property(left, depth)
		o.Properties[name] = property
		left -= used + len(name)
	}
	o.Required = slices.Sorted(maps.Keys(o.Properties))[:1]
	return o, size - left
}

// property returns the schema of a property, and its approximate size.
func (g *generator) property(left, depth int) (apiextensionsv1.JSONSchemaProps, int) {
	const smallestObject = 400
	p := apiextensionsv1.JSONSchemaProps{Description: g.sentence()}
	used := len(p.Description) + ofProperty
	share := left * (20 + g.IntN(50)) / 100
	switch n := g.IntN(100); {
	case n < 40 && share > smallestObject && depth < mostDeep:
		return g.object(share, depth+1)
	case n < 55 && share > smallestObject && depth < mostDeep:
		items, ofItems := g.object(share, depth+1)
		p.Type, p.Items = "array", &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		return p, used + ofItems
	case n < 62:
		p.Type, p.Format = "integer", "int32"
	case n < 70:
		p.Type = "boolean"
	case n < 75:
		p.Type, p.AdditionalProperties = "object", &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}
	case n < 80:
		p.XIntOrString = true
	case n < 87:
		p.Type = "string"
		for range 3 {
			p.Enum = append(p.Enum, apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", g.noun()+g.noun())})
		}
		slices.SortFunc(p.Enum, func(a, b apiextensionsv1.JSON) int { return strings.Compare(string(a.Raw), string(b.Raw)) })
		p.Enum = slices.CompactFunc(p.Enum, func(a, b apiextensionsv1.JSON) bool { return string(a.Raw) == string(b.Raw) })
	default:
		p.Type = "string"
	}
	return p, used
}

var nouns = strings.Fields(`Address Backend Bucket Certificate Cluster Condition Config Container Endpoint Filter Gateway Image
	Index Issuer Label Limit Match Metric Mode Node Option Owner Path Policy Pool Port Probe Queue Replica Resource Route Rule
	Scale Schedule Secret Selector Service Source Storage Target Template Timeout Token Topology Volume Window Zone`)

func (g *generator) noun() string { return nouns[g.IntN(len(nouns))] }

var words = strings.Fields(`the of a to and is that which when this must be field value specified default if not set optional
	object reference controller namespace used by are same for with in from each only may list name created immutable requests`)

// sentence returns a description: a few words, or paragraphs.
func (g *generator) sentence() string {
	text := []string{g.noun()}
	for range 5 + int(g.ExpFloat64()*14) {
		text = append(text, words[g.IntN(len(words))])
	}
	return strings.Join(text, " ") + "."
}
