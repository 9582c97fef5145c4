// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

var protobufDecoder = newProtobufDecoder()

func newProtobufDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, apiextensionsv1.AddToScheme,
		apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme, metav1.AddMetaToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

// decode turns a body into what JSON would give: maps, slices, strings, numbers. Text stays text.
func decode(contentType string, body []byte) (any, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil { // as for the @ in those of OpenAPI
		mediaType = contentType
	}
	switch {
	case len(body) == 0:
		return nil, nil
	case mediaType == jsonType:
		return decodeJSON(body)
	case mediaType == "application/yaml":
		return decodeYAML(body)
	case mediaType == protobufType:
		object, _, err := protobufDecoder.Decode(body, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("protobuf: %w", err)
		}
		return encodeAndDecode(object)
	case strings.Contains(mediaType, "proto-openapi.spec.v2"):
		return decodeOpenAPI(body, &openapi_v2.Document{})
	case strings.Contains(mediaType, "proto-openapi.spec.v3"):
		return decodeOpenAPI(body, &openapi_v3.Document{})
	default:
		return string(body), nil
	}
}

func decodeOpenAPI[document interface {
	proto.Message
	YAMLValue(comment string) ([]byte, error)
}](body []byte, into document) (any, error) {
	if err := proto.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("OpenAPI protobuf: %w", err)
	}
	text, err := into.YAMLValue("")
	if err != nil {
		return nil, fmt.Errorf("OpenAPI protobuf: %w", err)
	}
	return decodeYAML(text)
}

func decodeJSON(body []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("JSON: more than one value")
	}
	return value, nil
}

func decodeYAML(body []byte) (any, error) {
	converted, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, fmt.Errorf("YAML: %w", err)
	}
	return decodeJSON(converted)
}

func encodeAndDecode(object any) (any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// layout is what a person who reads a JSON body sees of its form.
func layout(contentType string, body []byte) string {
	if !strings.HasPrefix(contentType, jsonType) || len(body) == 0 {
		return ""
	}
	form := "compact"
	if bytes.Contains(bytes.TrimSpace(body), []byte("\n")) {
		form = "indented"
	}
	if bytes.HasSuffix(body, []byte("\n")) {
		form += ", ends the line"
	}
	return form
}

// readEvents reads n JSON events of a watch, fewer where the server ends it before.
func readEvents(body io.Reader, n int) ([][]byte, error) {
	var events [][]byte
	lines := bufio.NewReader(body)
	for len(events) < n {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, line)
	}
	return events, nil
}
