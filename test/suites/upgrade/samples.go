// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// samplesFile is Kubernetes' own test data: an object of each built-in resource that is stored. Its package links all of kube-apiserver, so
// readSamples reads the source.
const samplesFile = "test/integration/etcd/data.go"

// readSamples returns an object as JSON for each built-in resource and version. Namespaced ones are for a namespace.
func readSamples(ctx context.Context, namespace string) (map[schema.GroupVersionResource]string, error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("find the source of k8s.io/kubernetes: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(folder)), samplesFile)
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	r := &reader{
		samples: map[schema.GroupVersionResource]string{},
		values:  map[string]string{"namespace": namespace, "image": "example.com/image", "alternateImage": "example.com/other"},
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if entry, ok := node.(*ast.KeyValueExpr); ok {
			err = errors.Join(err, r.add(entry))
		}
		return true
	})
	if err == nil && len(r.samples) == 0 {
		err = errors.New("no samples")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return r.samples, err
}

// reader reads samples.
type reader struct {
	samples map[schema.GroupVersionResource]string
	// values are those of the variables in samples.
	values map[string]string
}

// add reads an entry such as gvr("", "v1", "secrets"): {Stub: `{...}`}, and ignores others.
func (r *reader) add(entry *ast.KeyValueExpr) error {
	key, isCall := entry.Key.(*ast.CallExpr)
	value, isLiteral := entry.Value.(*ast.CompositeLit)
	if !isCall || !isLiteral || len(key.Args) != 3 {
		return nil
	}
	var of [3]string
	for i, arg := range key.Args {
		var err error
		if of[i], err = r.text(arg); err != nil {
			return err
		}
	}
	for _, element := range value.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if name, ok := field.Key.(*ast.Ident); !ok || name.Name != "Stub" {
			continue
		}
		stub, err := r.text(field.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", of, err)
		}
		r.samples[schema.GroupVersionResource{Group: of[0], Version: of[1], Resource: of[2]}] = stub
	}
	return nil
}

// text returns the value of an expression.
func (r *reader) text(expression ast.Expr) (string, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.Ident:
		if value, ok := r.values[e.Name]; ok {
			return value, nil
		}
	case *ast.BinaryExpr:
		left, err := r.text(e.X)
		if err != nil || e.Op != token.ADD {
			break
		}
		right, err := r.text(e.Y)
		return left + right, err
	}
	return "", fmt.Errorf("no text: %T", expression)
}
