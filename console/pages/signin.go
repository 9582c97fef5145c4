// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"html/template"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// signInTemplates are pages for browsers without a session, so without a search box.
var signInTemplates = template.Must(template.ParseFS(files, "templates/signin.html", "templates/enter.html"))

// SignIn is the model of the page on which a user signs in.
type SignIn struct {
	// Server is the address of the API server, and Issuer that of an OpenID Connect issuer, or empty.
	Server, Issuer string
	// Lifetime and Idle are how long a session and its silence last.
	Lifetime, Idle Duration
	// Message says why an attempt has failed.
	Message string
}

// Duration is shown to people.
type Duration time.Duration

func (d Duration) String() string { return duration.HumanDuration(time.Duration(d)) }

// Write answers with the page.
func (s SignIn) Write(w http.ResponseWriter, code int) { writeAlone(w, code, "signin.html", s) }

// Enter answers with a page that opens the console. It is for a browser that comes from another site, and so has not sent the cookie of its
// session.
func Enter(w http.ResponseWriter) {
	w.Header().Set("Refresh", "0; url=/")
	writeAlone(w, http.StatusOK, "enter.html", nil)
}

func writeAlone(w http.ResponseWriter, code int, name string, model any) {
	var text bytes.Buffer
	if err := signInTemplates.ExecuteTemplate(&text, name, model); err != nil {
		http.Error(w, "The page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write([]byte(visible(text.String()))) //nolint:errcheck // the client is gone
}
