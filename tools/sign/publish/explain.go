// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// explain returns an error of the registry in one line that says what to do. do is what failed, such as "push to".
func explain(item item, do string, err error) error {
	registry := item.repository.RegistryStr()
	var refused *transport.Error
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s does not let you %s %s (%s): `docker login %s` with an account that may",
			registry, do, item.repository.RepositoryStr(), http.StatusText(refused.StatusCode), registry)
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot reach the registry %s: %w", registry, oneLine{unreachable.Err})
	}
	return fmt.Errorf("cannot %s %s, run this again: %w", do, item.repository, oneLine{err})
}

// oneLine is an error whose text has one line of bounded length: registries send pages of HTML.
type oneLine struct{ error }

// Unwrap returns the error itself.
func (o oneLine) Unwrap() error { return o.error }

// Error returns the beginning of the text.
func (o oneLine) Error() string {
	const most = 300
	text := strings.Join(strings.Fields(o.error.Error()), " ")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}
