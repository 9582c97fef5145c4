// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

// answerTimeout is the time that a registry may take to begin its answer to a request.
const answerTimeout = 2 * time.Minute

// publication brings items into a registry.
type publication struct {
	items     []item
	by        signing.Signer
	out       io.Writer
	transport http.RoundTripper
}

func newPublication(items []item, by signing.Signer, out io.Writer) publication {
	limited := remote.DefaultTransport.(*http.Transport).Clone() // the package documents its type
	limited.ResponseHeaderTimeout = answerTimeout
	return publication{items, by, out, limited}
}

func (p publication) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(p.transport)}
}

// push brings all items into the registry by their digests. Before that it checks that it may, and that no tag is taken.
func (p publication) push(ctx context.Context) error {
	for _, item := range p.items {
		if err := remote.CheckPushPermission(item.repository.Digest(item.digest.String()), authn.DefaultKeychain, p.transport); err != nil {
			return explain(item, "push to", err)
		}
		if err := p.checkTag(ctx, item); err != nil {
			return err
		}
	}
	for _, item := range p.items {
		reference := item.repository.Digest(item.digest.String())
		if err := remote.Push(reference, item.content, p.options(ctx)...); err != nil {
			return explain(item, "push to", err)
		}
		p.printf("pushed %s\n", reference)
	}
	return nil
}

// checkTag returns an error if the tag of an item is that of something else.
func (p publication) checkTag(ctx context.Context, item item) error {
	tag := item.repository.Tag(item.tag)
	known, err := remote.Head(tag, p.options(ctx)...)
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return nil
	case err != nil:
		return explain(item, "read", err)
	case known.Digest != item.digest:
		return fmt.Errorf("%s is another build already (%s, not %s), and a version never changes: release another version",
			tag, known.Digest, item.digest)
	}
	return nil
}

// sign adds what is to be signed and is not there yet.
func (p publication) sign(ctx context.Context, key signing.Key) error {
	for _, item := range p.items {
		for _, claim := range item.claims {
			kinds, err := p.signed(ctx, item, claim.about)
			if err != nil {
				return explain(item, "read the signatures of", err)
			}
			if kinds[claim.kind] {
				continue
			}
			bundle, err := key.Attest(claim.kind, item.repository.Name(), claim.about.String(), claim.predicate)
			if err != nil {
				return err
			}
			if err := p.attach(ctx, item, claim, bundle); err != nil {
				return explain(item, "push signatures to", err)
			}
		}
		p.printf("signed %s\n", item.repository.Digest(item.digest.String()))
	}
	return nil
}

// tag gives items their tags, charts last, after it has verified that the registry has all that belongs to them.
func (p publication) tag(ctx context.Context) error {
	for _, item := range p.items {
		if err := p.checkTag(ctx, item); err != nil {
			return err
		}
		for _, claim := range item.claims {
			kinds, err := p.signed(ctx, item, claim.about)
			if err != nil {
				return explain(item, "read the signatures of", err)
			}
			if !kinds[claim.kind] {
				return fmt.Errorf("nothing has a tag: %s has no valid %s", item.repository.Digest(claim.about.String()), shortKinds[claim.kind])
			}
		}
	}
	for _, item := range p.items {
		tag := item.repository.Tag(item.tag)
		if err := remote.Tag(tag, item.content, p.options(ctx)...); err != nil {
			return explain(item, "tag", err)
		}
		p.printf("published %s@%s\n", tag, item.digest)
	}
	return nil
}

func (p publication) printf(format string, args ...any) {
	fmt.Fprintf(p.out, format, args...)
}
