// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package objectjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// WithRevision returns an object whose metadata.resourceVersion is a revision of search. Clients go on with a watch where the last object
// that they have got says. An object without metadata stays as it is.
//
// The text must be valid JSON. It is not decoded, because that would take most of the time of a write.
func WithRevision(object []byte, revision int64) []byte {
	begin, end := valueOf(object, 0, "metadata")
	if begin < 0 || object[begin] != '{' {
		return object
	}
	number := []byte(`"` + strconv.FormatInt(revision, 10) + `"`)
	if at, after := valueOf(object, begin, "resourceVersion"); at >= 0 {
		return splice(object, at, after, number)
	}
	field := slices.Concat([]byte(`"resourceVersion":`), number)
	if len(bytes.TrimSpace(object[begin+1:end-1])) > 0 {
		field = append(field, ',')
	}
	return splice(object, begin+1, begin+1, field)
}

// WithChangedAt returns an object with v1beta1.ChangedAtAnnotation. The text must be valid JSON.
func WithChangedAt(object []byte, at time.Time) []byte {
	return WithAnnotation(object, v1beta1.ChangedAtAnnotation, []byte(`"`+at.UTC().Format("2006-01-02T15:04:05.000Z07:00")+`"`))
}

// WithAnnotation returns an object with an annotation, whose value is a string of JSON. The text must be valid JSON. It is not decoded.
func WithAnnotation(object []byte, name string, value []byte) []byte {
	metadata, metadataEnd := valueOf(object, 0, "metadata")
	if metadata < 0 || object[metadata] != '{' {
		return object
	}
	field := slices.Concat([]byte(`"`+name+`":`), value)
	begin, end := valueOf(object, metadata, "annotations")
	if begin < 0 || object[begin] != '{' {
		begin, end = metadata, metadataEnd
		field = slices.Concat([]byte(`"annotations":{`), field, []byte("}"))
	} else if at, after := valueOf(object, begin, name); at >= 0 {
		return splice(object, at, after, value)
	}
	if len(bytes.TrimSpace(object[begin+1:end-1])) > 0 {
		field = append(field, ',')
	}
	return splice(object, begin+1, begin+1, field)
}

// KindOf returns the kind of an object. It is empty if the text has none.
func KindOf(object []byte) (kind string) {
	if begin, end := valueOf(object, 0, "kind"); begin >= 0 {
		json.Unmarshal(object[begin:end], &kind) //nolint:errcheck // it is empty then
	}
	return kind
}

func splice(text []byte, from, to int, by []byte) []byte {
	return slices.Concat(text[:from], by, text[to:])
}

// valueOf returns where the value of a field begins and ends, or -1. An object of JSON begins at or after at.
func valueOf(text []byte, at int, field string) (begin, end int) {
	i := skip(text, at, isSpace)
	if i >= len(text) || text[i] != '{' {
		return -1, -1
	}
	for i++; ; {
		i = skip(text, i, func(c byte) bool { return isSpace(c) || c == ',' })
		if i >= len(text) || text[i] != '"' {
			return -1, -1
		}
		nameEnd := valueEnd(text, i)
		begin = skip(text, nameEnd, func(c byte) bool { return isSpace(c) || c == ':' })
		if begin >= len(text) {
			return -1, -1
		}
		end = valueEnd(text, begin)
		if string(text[i+1:nameEnd-1]) == field {
			return begin, end
		}
		i = end
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func skip(text []byte, i int, these func(byte) bool) int {
	for i < len(text) && these(text[i]) {
		i++
	}
	return i
}

// valueEnd returns where the value ends that begins at i.
func valueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = quoteEnd(text, i)
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i // of a number before it
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// quoteEnd returns where the quote is that ends a string.
func quoteEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
