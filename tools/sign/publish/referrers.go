// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// bundleType is the type of a bundle of Sigstore, and of what refers to an image with one.
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// emptyType is the type of a configuration without content.
	emptyType = "application/vnd.oci.empty.v1+json"
)

// Limits of what the registry may have about one image.
const (
	maxReferrers = 200
	maxBundle    = 64 << 20
)

// attach adds a bundle to what it is about, as cosign does: something that refers to it.
func (p publication) attach(ctx context.Context, item item, claim claim, bundle []byte) error {
	about, err := remote.Head(item.repository.Digest(claim.about.String()), p.options(ctx)...)
	if err != nil {
		return err
	}
	subject := &v1.Descriptor{MediaType: about.MediaType, Size: about.Size, Digest: about.Digest}
	referrer, err := newArtifact(bundleType, blob{emptyType, []byte("{}")}, blob{bundleType, bundle}, subject, map[string]string{
		"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": claim.kind,
	})
	if err != nil {
		return err
	}
	digest, err := referrer.Digest()
	if err != nil {
		return err
	}
	return remote.Push(item.repository.Digest(digest.String()), referrer, p.options(ctx)...)
}

// signed returns the kinds of claims about something that the signer signed. What others signed does not count.
func (p publication) signed(ctx context.Context, item item, about v1.Hash) (map[string]bool, error) {
	index, err := remote.Referrers(item.repository.Digest(about.String()), p.options(ctx)...)
	if err != nil {
		return nil, err
	}
	referrers, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(referrers.Manifests) > maxReferrers {
		return nil, fmt.Errorf("%d artifacts refer to %s, at most %d may", len(referrers.Manifests), about, maxReferrers)
	}
	kinds := map[string]bool{}
	for _, descriptor := range referrers.Manifests {
		bundle, err := p.bundle(ctx, item, descriptor.Digest)
		if err != nil {
			return nil, err
		}
		if kind, err := p.by.VerifyStatement(bundle, about.String()); err == nil {
			kinds[kind] = true
		}
	}
	return kinds, nil
}

// bundle returns the bundle in an artifact. Others may refer to an image with anything, which is nil. Not every registry says what kind
// of artifact it is.
func (p publication) bundle(ctx context.Context, item item, digest v1.Hash) (content []byte, err error) {
	artifact, err := remote.Image(item.repository.Digest(digest.String()), p.options(ctx)...)
	if err != nil {
		return nil, err
	}
	layers, err := artifact.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != 1 {
		return nil, nil
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != bundleType {
		return nil, err
	}
	layer, err := layers[0].Compressed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, layer.Close()) }()
	return io.ReadAll(io.LimitReader(layer, maxBundle))
}
