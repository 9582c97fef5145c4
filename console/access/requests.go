// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// MaxQuery bounds the parameters of a page.
const MaxQuery = 16 << 10

// PageTimeout bounds the time of a page, which asks search several times.
const PageTimeout = 30 * time.Second

// Policy is the Content-Security-Policy of pages: no scripts, and nothing of another server.
const Policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers are those of each answer.
var headers = map[string]string{
	"Content-Security-Policy":      Policy,
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// SetHeaders sets the headers that each answer has.
func SetHeaders(of http.Header) {
	for name, value := range headers {
		of.Set(name, value)
	}
}

// SameOrigin returns whether the page that has sent a request is one of the console at an origin, or the person has typed the address.
// Clients that are no browsers say nothing about that.
func SameOrigin(req *http.Request, origin string) bool {
	if from := req.Header.Get("Origin"); from != "" && from != origin {
		return false
	}
	switch req.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}

// Refuse answers without a page.
func Refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, text+"\n") //nolint:errcheck // the client is gone
}

// ErrBusy is returned if too many requests wait for a place.
var ErrBusy = errors.New("the console is busy: try again")

// Places bound how many requests are served at once, and how many wait for that.
type Places struct{ taken, waiting chan struct{} }

// NewPlaces returns so many places that are free, and room for so many requests that wait for one.
func NewPlaces(count, waiting int) *Places {
	return &Places{make(chan struct{}, count), make(chan struct{}, waiting)}
}

// Take returns a place, which the caller must free. Requests get places in the order in which they came. Take returns ErrBusy at once if
// too many wait, and the error of the context when that ends.
func (p *Places) Take(ctx context.Context) (free func(), err error) {
	free = func() { <-p.taken }
	select {
	case p.taken <- struct{}{}:
		return free, nil
	default:
	}
	select {
	case p.waiting <- struct{}{}:
		defer func() { <-p.waiting }()
	default:
		return nil, ErrBusy
	}
	select {
	case p.taken <- struct{}{}:
		return free, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Bound gives each request a time, and a place in it.
func (p *Places) Bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), PageTimeout)
		defer cancel()
		free, err := p.Take(ctx)
		if err != nil {
			w.Header().Set("Retry-After", "1")
			Refuse(w, http.StatusServiceUnavailable, "The console is busy: try again.")
			return
		}
		defer free()
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}
