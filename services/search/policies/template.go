// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/tripod-k8s/tripod/services/search/v1alpha1"
)

// maxText bounds what a template makes.
const maxText = 1 << 20

// functions are those of sprig whose results depend on their arguments alone: no environment, no network, no clock, no randomness. So two replicas, and
// two turns, make the same of the same objects. Functions are left out, too, that take much time or memory whatever their results are.
var functions = func() template.FuncMap {
	all := sprig.HermeticTxtFuncMap()
	for name := range all {
		if strings.HasPrefix(name, "gen") { // keys and certificates
			delete(all, name)
		}
	}
	for _, name := range []string{"bcrypt", "htpasswd", "derivePassword", "encryptAES", "shuffle", "repeat", "until", "untilStep", "seq"} {
		delete(all, name)
	}
	return all
}()

// compile parses a template. An execution of it that takes too many steps fails.
func compile(text string) (*template.Template, error) {
	t, err := template.New("template").Funcs(functions).Funcs(new(steps).functions()).Parse(text)
	if err != nil {
		return nil, err
	}
	count(t)
	return t, nil
}

// render returns what a template makes of data. A field that is not there is empty.
func render(text string, data map[string]any) (string, error) {
	t, err := compile(text)
	if err != nil {
		return "", err
	}
	var made bounded
	if err := t.Execute(&made, data); err != nil {
		return "", err
	}
	return strings.ReplaceAll(made.String(), "<no value>", ""), nil
}

// holds reports whether a template makes "true".
func holds(text string, data map[string]any) (bool, error) {
	made, err := render(text, data)
	return strings.EqualFold(strings.TrimSpace(made), "true"), err
}

// bounded takes maxText bytes.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxText {
		return 0, errors.New("it makes more than 1 MiB")
	}
	return b.Buffer.Write(text)
}

// validate returns the reason of the condition Validated, and what is wrong with the templates of a policy.
func validate(spec *v1alpha1.ClusterImportPolicySpec) (reason string, err error) {
	type field struct{ reason, name, text string }
	fields := []field{
		{"FailedParseLifecycleName", "nameTemplate", spec.NameTemplate},
		{"FailedParseSourceSelector", "selectorTemplate", spec.Source.SelectorTemplate},
		{"InvalidPolicy", "template", spec.Template},
		{"InvalidPolicy", "creationCondition", spec.CreationCondition},
	}
	for _, r := range spec.References {
		fields = append(fields,
			field{"InvalidPolicy", "namespaceTemplate of " + r.Key, r.NamespaceTemplate}, field{"InvalidPolicy", "nameTemplate of " + r.Key, r.NameTemplate})
	}
	for _, f := range fields {
		if _, err := compile(f.text); err != nil {
			return f.reason, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return "", nil
}
