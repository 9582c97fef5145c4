// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"k8s.io/kube-openapi/pkg/handler"
)

// entries returns the named entries of a document.
func entries(t *testing.T, document []byte) map[string]map[string]any {
	t.Helper()
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(document, &top))
	all := map[string]map[string]any{}
	for _, key := range mergedKeys {
		var named map[string]any
		if top[key] != nil {
			require.NoError(t, json.Unmarshal(top[key], &named))
		}
		all[key] = named
	}
	return all
}

// FuzzMergeJSON merges whatever servers may send. The result is JSON, has every name of either, and under each name of core what core sent.
func FuzzMergeJSON(f *testing.F) {
	f.Add([]byte(coreDocument), []byte(extensionsDocument), []byte(localDocument))
	f.Add([]byte(coreDocument), []byte(coreDocument), []byte(coreDocument))
	f.Add([]byte(`{"paths":{"a":1,"a":2}}`), []byte(`{"paths":null}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, core, extensions, local []byte) {
		merged, err := mergeJSON([][]byte{core, extensions}, local)
		if err != nil {
			return
		}
		require.True(t, json.Valid(merged), "%s", merged)
		got, ours, theirs := entries(t, merged), entries(t, core), entries(t, extensions)
		for key, named := range ours {
			for name, value := range named {
				require.Equal(t, value, got[key][name], "%s %s is not core's", key, name)
			}
			for name := range theirs[key] {
				require.Contains(t, got[key], name)
			}
		}
		require.LessOrEqual(t, len(merged), 8*(len(core)+len(extensions)+len(local)), "a small document became a large one")
	})
}

// FuzzMergeProtobuf merges whatever servers may send. The result has the names of both documents, each once, and core's before others.
func FuzzMergeProtobuf(f *testing.F) {
	var seeds [][]byte
	for _, document := range []string{coreDocument, extensionsDocument, localDocument} {
		seed, err := handler.ToProtoBinary([]byte(document))
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	f.Add(seeds[0], seeds[1])
	f.Add(seeds[1], seeds[2])
	f.Fuzz(func(t *testing.T, core, extensions []byte) {
		merged, err := mergeProtobuf(core, extensions)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(merged), 2*(len(core)+len(extensions)))
		var ours, theirs, got openapi_v2.Document
		if proto.Unmarshal(core, &ours) != nil || proto.Unmarshal(extensions, &theirs) != nil {
			return
		}
		require.NoError(t, proto.Unmarshal(merged, &got))
		want := map[string]bool{}
		for _, document := range []*openapi_v2.Document{&ours, &theirs} {
			for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
				want[definition.GetName()] = true
			}
		}
		for _, definition := range got.GetDefinitions().GetAdditionalProperties() {
			require.True(t, want[definition.GetName()], "%q is there twice, or in no document", definition.GetName())
			delete(want, definition.GetName())
		}
		require.Empty(t, want)
	})
}

// FuzzInflated seeks and reads in a compressed document as in one that is not.
func FuzzInflated(f *testing.F) {
	f.Add([]byte("document"), []byte{0, 3, 2, 1, 7, 200, 2, 1})
	f.Fuzz(func(t *testing.T, document, steps []byte) {
		compressed, err := compress(bytes.NewReader(document), maxDocument)
		require.NoError(t, err)
		got, want := newInflated(compressed), bytes.NewReader(document)
		for ; len(steps) >= 2; steps = steps[2:] {
			offset, whence := int64(int8(steps[0])), int(steps[1]%3)
			at, wantErr := want.Seek(offset, whence)
			now, gotErr := got.Seek(offset, whence)
			require.Equal(t, wantErr == nil, gotErr == nil)
			if wantErr == nil {
				require.Equal(t, at, now)
			}
			n := int(steps[1] / 3)
			wanted, read := make([]byte, n), make([]byte, n)
			wantN, wantErr := io.ReadFull(want, wanted)
			gotN, gotErr := io.ReadFull(got, read)
			require.Equal(t, wanted[:wantN], read[:gotN])
			require.Equal(t, wantErr, gotErr)
		}
	})
}
