// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"math/rand"
	"os"
	"reflect"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/tripod-k8s/tripod/apiservice"
)

const seedVariable = "TRIPOD_APITEST_SEED"

// RoundTrip tests that objects survive the way through each version of a service: it fills objects at random, fills in their defaults,
// converts them to the version, writes and reads them as JSON, and converts them back. A field that a conversion forgets, or that the
// defaults of a version change, fails the test. It starts nothing.
//
// Some values make no sense together. Functions such as func(spec *v1.BookSpec, c randfill.Continue) fill in a type in a way that does,
// with sigs.k8s.io/randfill. The log shows the seed. The variable TRIPOD_APITEST_SEED makes the next run fill objects in the same way.
func RoundTrip(t *testing.T, service apiservice.Service, fill ...any) {
	t.Helper()
	scheme, err := service.Scheme()
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	seed := seedOf(t)
	codecs := serializer.NewCodecFactory(scheme)
	all := append(withDefaults(service, scheme), fill...)
	authors := func(serializer.CodecFactory) []any { return all }
	tried := 0
	for _, group := range service.Groups {
		for gvk := range scheme.AllKnownTypes() {
			if gvk.Group != group.Name || gvk.Version != runtime.APIVersionInternal || gvk.Kind == metav1.WatchEventKind {
				continue
			}
			tried++
			t.Run(gvk.Kind, func(t *testing.T) {
				filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, authors), rand.NewSource(seed), codecs)
				roundtrip.RoundTripSpecificKindWithoutProtobuf(t, gvk, scheme, codecs, filler, nil)
			})
		}
	}
	if tried == 0 {
		t.Fatalf("apitest: service %s has no kinds to try", service.Name)
	}
}

// withDefaults returns functions that fill an object of each kind at random, and then fill in its defaults.
func withDefaults(service apiservice.Service, scheme *runtime.Scheme) (fill []any) {
	for _, group := range service.Groups {
		for _, object := range scheme.KnownTypes(schema.GroupVersion{Group: group.Name, Version: runtime.APIVersionInternal}) {
			signature := reflect.FuncOf([]reflect.Type{reflect.PointerTo(object), reflect.TypeFor[randfill.Continue]()}, nil, false)
			fill = append(fill, reflect.MakeFunc(signature, func(in []reflect.Value) []reflect.Value {
				in[1].Interface().(randfill.Continue).FillNoCustom(in[0].Interface())
				scheme.Default(in[0].Interface().(runtime.Object))
				return nil
			}).Interface())
		}
	}
	return fill
}

// seedOf returns the seed that the environment has, or another one each time.
func seedOf(t *testing.T) int64 {
	t.Helper()
	seed := rand.Int63() //nolint:gosec // it is for a test
	if text := os.Getenv(seedVariable); text != "" {
		given, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("apitest: %s is %q, which is no number", seedVariable, text)
		}
		seed = given
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}
