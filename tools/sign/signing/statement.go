// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// Kinds of statements about something in a registry.
const (
	// Signature says only that the signer signed it, as `cosign sign` does.
	Signature = "https://sigstore.dev/cosign/sign/v1"
	// Provenance says from what it was built, and how.
	Provenance = "https://slsa.dev/provenance/v1"
	// SBOM lists the components, in CycloneDX.
	SBOM = "https://cyclonedx.org/bom"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// statement is one of in-toto. cosign and policies of clusters read it.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Attest returns a bundle that says something of a kind about what has a digest, such as sha256:1234.... name is for readers and may be
// empty.
func (k Key) Attest(kind, name, digest string, predicate json.RawMessage) ([]byte, error) {
	algorithm, hash, _ := strings.Cut(digest, ":")
	content, err := json.Marshal(statement{
		Type:          statementType,
		Subject:       []subject{{Name: name, Digest: map[string]string{algorithm: hash}}},
		PredicateType: kind, Predicate: predicate,
	})
	if err != nil {
		return nil, err
	}
	return k.bundle(&sign.DSSEData{Data: content, PayloadType: payloadType})
}

// VerifyStatement returns the kind of a bundle that the signer signed about what has a digest.
func (s Signer) VerifyStatement(content []byte, digest string) (kind string, err error) {
	var signed bundle.Bundle
	if err := signed.UnmarshalJSON(content); err != nil {
		return "", fmt.Errorf("it is no bundle of Sigstore: %w", err)
	}
	algorithm, encoded, _ := strings.Cut(digest, ":")
	hash, err := hex.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	verifier, err := verify.NewVerifier(s.trusted, s.options...)
	if err != nil {
		return "", err
	}
	result, err := verifier.Verify(&signed, verify.NewPolicy(verify.WithArtifactDigest(algorithm, hash), s.policy))
	if err != nil {
		return "", err
	}
	if result.Statement == nil {
		return "", fmt.Errorf("it says nothing about %s", digest)
	}
	return result.Statement.GetPredicateType(), nil
}
