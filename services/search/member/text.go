// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// maxDepth is how deep objects and lists may be nested. The deepest of Kubernetes' own and of well-known CustomResourceDefinitions have
// less than 60 levels, and each database and parser takes more.
const maxDepth = 256

// maxNumber is how long a number may be. The longest that Kubernetes' API writes has 24 characters.
const maxNumber = 256

// maxValues is how many values an object or a document may have that is decoded: three bytes of JSON may become 300 in memory. An object of
// etcd's usual 1.5 MiB has fewer even if all of its names and texts have a few letters.
const maxValues = 200_000

// checkValues refuses more values than memory could hold once they are decoded. It only looks at the bytes.
func checkValues(text []byte) error {
	if len(text) <= maxValues { // each value has a byte at least
		return nil
	}
	values := 1
	begun := false // whether an object or a list begins, which may be empty
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case c == ',', begun && c != ']' && c != '}':
			values++
		}
		if begun = c == '[' || c == '{'; c == '"' {
			i += stringEnd(text[i:])
		}
	}
	if values > maxValues {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	return nil
}

// checkText refuses what parsers read in different ways although it is valid JSON: nesting that some do not take, numbers that some do not
// hold, and names that some take for another one, because they differ by case only. The text has no blanks, and no escapes that it does not
// need.
func checkText(kind streams.Kind, text []byte) error {
	depth, field := 0, ""
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := i + stringEnd(text[i:])
			if isName := end+1 < len(text) && text[end+1] == ':'; isName && depth <= 2 {
				name := text[i+1 : end]
				if err := checkName(kind, depth, field, name); err != nil {
					return err
				}
				if depth == 1 {
					field = string(name)
				}
			}
			i = end
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("it is nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			end := i + numberEnd(text[i:])
			if err := checkNumber(string(text[i:end])); err != nil {
				return err
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd returns where a string ends: at its closing quote.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

func numberEnd(text []byte) int {
	if end := bytes.IndexFunc(text, func(c rune) bool { return !strings.ContainsRune("+-.eE0123456789", c) }); end > 0 {
		return end
	}
	return len(text)
}

func checkNumber(text string) error {
	if len(text) > maxNumber {
		return fmt.Errorf("a number has more than %d digits", maxNumber)
	}
	if !strings.ContainsAny(text, "eE") {
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return fmt.Errorf("the number %s is too large", text)
	}
	return nil
}

// Names with a meaning: those of each object, of its metadata, and of RBAC objects.
var (
	objectNames   = meaning("apiVersion", "kind", "metadata")
	rbacNames     = meaning("apiVersion", "kind", "metadata", "rules", "aggregationRule", "subjects", "roleRef")
	metadataNames = meaning("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields")
)

// meanings are names, and the same names by their form that ignores case.
type meanings struct {
	exact  map[string]bool
	folded map[string]string
}

func meaning(names ...string) meanings {
	all := meanings{map[string]bool{}, map[string]string{}}
	for _, name := range names {
		all.exact[name], all.folded[fold(name)] = true, name
	}
	return all
}

// fold returns a form of a name that is the same for all that differ from it by case only, as encoding/json sees it.
func fold(name string) string {
	return strings.Map(func(c rune) rune {
		for {
			next := unicode.SimpleFold(c)
			if next <= c {
				return next // the smallest of those that are alike
			}
			c = next
		}
	}, name)
}

// checkName refuses a name that differs by case only from one with a meaning at this depth, in this field of the object.
func checkName(kind streams.Kind, depth int, field string, name []byte) error {
	known := objectNames
	switch {
	case depth == 2 && field == "metadata":
		known = metadataNames
	case depth == 2:
		return nil
	case kind.Group == rbacv1.GroupName:
		known = rbacNames
	}
	if known.exact[string(name)] {
		return nil
	}
	if meant, found := known.folded[fold(string(name))]; found {
		return fmt.Errorf("it has a field %q, which is not %q", name, meant)
	}
	return nil
}
