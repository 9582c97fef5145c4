// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// hooks are all webhooks.
var hooks *hookServer

// hookService is what the Service of webhooks is called in the namespace of the test with webhooks.
const hookService = "hook.webhooks.svc"

// hookServer answers webhooks as their paths request, and records the reviews that it received. The first element of a path is the caller.
type hookServer struct {
	ca, port string

	mu sync.Mutex
	// requests are those of each side, as text.
	requests map[string][]admissionv1.AdmissionRequest
}

func newHookServer() *hookServer {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", nil, []string{hookService})
	if err != nil {
		panic(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		panic(err)
	}
	h := &hookServer{ca: base64.StdEncoding.EncodeToString(certPEM), requests: map[string][]admissionv1.AdmissionRequest{}}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS() // it ends with the process
	_, h.port, err = net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		panic(err)
	}
	return h
}

// fillFor puts the address of the webhooks of a side into a text.
func (h *hookServer) fillFor(side, text string) string {
	return strings.NewReplacer("{hook}", "https://localhost:"+h.port+"/"+side, "{side}", side, "{port}", h.port, "{ca}", h.ca).Replace(text)
}

// fill returns the same addresses of webhooks to all callers.
func (h *hookServer) fill(text string) string { return h.fillFor("any", text) }

// asked returns what webhooks were asked about objects in a namespace once all was in force.
func (h *hookServer) asked(side, namespace string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var texts []string
	for _, request := range h.requests[side] {
		if request.Namespace != namespace || strings.Contains(string(request.Object.Raw), `"settle`) {
			continue
		}
		data, err := json.Marshal(request)
		if err != nil {
			panic(err)
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			panic(err)
		}
		texts = append(texts, both.InWords(normaliser.Value(value)))
	}
	slices.Sort(texts)
	return texts
}

// ServeHTTP implements http.Handler.
func (h *hookServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	elements := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	side, behaviour, arguments := elements[0], elements[1], elements[2:]
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("no review: %v", err), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.requests[side] = append(h.requests[side], *review.Request)
	h.mu.Unlock()
	object := review.Request.Object.Raw
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch behaviour {
	case "allow":
	case "warn":
		response.Warnings = []string{"mind the " + review.Request.Resource.Resource}
	case "deny":
		response.Allowed = false
		response.Result = &metav1.Status{Code: http.StatusTeapot, Reason: "Teapot", Message: "no " + review.Request.Resource.Resource + " today"}
	case "label":
		response.Patch = labelPatch(object, arguments[0], arguments[1])
	case "count":
		response.Patch = labelPatch(object, arguments[0], labels(object)[arguments[0]]+"x")
	case "copy":
		response.Patch = labelPatch(object, arguments[1], "was-"+labels(object)[arguments[0]])
	case "broken":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	case "slow":
		<-req.Context().Done()
		return
	}
	if response.Patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType = &kind
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		panic(err)
	}
}

func labels(raw []byte) map[string]string {
	if len(raw) == 0 {
		return nil // it is deleted
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(raw); err != nil {
		panic(err)
	}
	return object.GetLabels()
}

// labelPatch returns a patch that sets a label, or none where nothing is left of the object.
func labelPatch(raw []byte, key, value string) []byte {
	if len(raw) == 0 {
		return nil
	}
	if labels(raw) == nil {
		return fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels","value":{%q:%q}}]`, key, value)
	}
	return fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, key, value)
}
