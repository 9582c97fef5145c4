// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package objectjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// An object is stored in a form that each database can hold and compares alike: valid JSON without duplicate names, numbers that are
// integers of up to 15 digits, names of fields without escapes, no NUL, no half of a surrogate pair, and at most query.MaxSteps levels
// below the object. Almost all objects are of this form as they are.
//
// Of any other object, the table originals has the text that is served, under the revision of the state. The column object has what
// searches look at: a number is a string of the same digits, texts are as query.Speakable has them, and deeper objects and lists are empty.
// query.Field gives them the same meaning.
//
// An older version of search leaves no row in originals, and finds none for a state that it has written itself.

// ErrNoObject says that a text is no JSON object. The store refuses it.
var ErrNoObject = errors.New("not a JSON object")

// Normalize returns the form of an object for the database, and reports whether that is another text. The text is served as it is.
func Normalize(text []byte) (form []byte, differs bool, err error) {
	if isPlain(text) {
		return text, false, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrNoObject, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || object == nil {
		return nil, false, ErrNoObject
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(indexed(object, 0)); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrNoObject, err)
	}
	return bytes.TrimSuffix(written.Bytes(), []byte("\n")), true, nil
}

// indexed returns what searches look at of a value that is some steps below the object.
func indexed(value any, steps int) any {
	switch v := value.(type) {
	case json.Number:
		if IsInteger(string(v)) {
			return v
		}
		return string(v)
	case string:
		return query.Speakable(v)
	case []any:
		if steps == query.MaxSteps {
			return []any{}
		}
		for i := range v {
			v[i] = indexed(v[i], steps+1)
		}
	case map[string]any:
		if steps == query.MaxSteps {
			return map[string]any{}
		}
		fields := make(map[string]any, len(v))
		for name := range v {
			if !strings.ContainsRune(name, 0) { // which no path has
				fields[FieldName(name)] = indexed(v[name], steps+1)
			}
		}
		return fields
	}
	return value
}

// FieldName returns the name that a field has in the form. MariaDB finds none that begins with a minus.
func FieldName(name string) string {
	if strings.HasPrefix(strings.TrimLeft(name, "~"), "-") {
		return "~" + name
	}
	return name
}

// IsScalar reports whether a text is also that of a number or a truth value in the form.
func IsScalar(text string) bool { return text == "true" || text == "false" || IsInteger(text) }

// plainDigits is how many digits each database compares exactly.
const plainDigits = 15

// IsInteger reports whether the text of a number is the one that each database writes for it.
func IsInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "0" {
		return text == "0"
	}
	return digits != "" && len(digits) <= plainDigits && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// isPlain reports whether an object is of the form of the database as it is. It only looks at the bytes, because decoding would take most
// of the time of a write.
func isPlain(text []byte) bool {
	if !jsontext.Value(text).IsValid() || len(text) == 0 || text[0] != '{' {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := quoteEnd(text, i)
			isName := text[skip(text, end+1, isSpace)] == ':' // a string is not the end of an object
			if isName && !isPlainName(text[i+1:end]) || hasUnspeakable(text[i:end]) {
				return false
			}
			i = end
		case c == '{' || c == '[':
			if depth++; depth > query.MaxSteps+1 {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			end := valueEnd(text, i)
			if !IsInteger(string(text[i:end])) {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// isPlainName reports whether the name of a field has one text only, because MariaDB compares that, and is FieldName as it is.
func isPlainName(name []byte) bool {
	return bytes.IndexByte(name, '\\') < 0 && (len(name) == 0 || name[0] != '-' && name[0] != '~')
}

// hasUnspeakable reports whether a string of valid JSON may have an escape that is no character for query.Speakable, or a surrogate.
func hasUnspeakable(quoted []byte) bool {
	for {
		_, after, found := bytes.Cut(quoted, []byte(`\`))
		if !found || len(after) == 0 {
			return false
		}
		if after[0] == 'u' && len(after) >= 5 && (string(after[1:4]) == "000" && after[4] <= '1' || after[1]|0x20 == 'd' && after[2] >= '8') {
			return true
		}
		quoted = after[1:]
	}
}
