// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Policy says that the RBAC of a cluster counts, and who readers are in that cluster.
type Policy struct {
	// Home is set for the cluster that search is part of. Its users are the readers as they are.
	Home bool `json:"home,omitempty"`
	// Username is an expression in CEL for the user name of a reader in the cluster. It is that of the reader if empty. The variable user has
	// username, uid, groups and extra.
	Username string `json:"username,omitempty"`
	// Groups is an expression in CEL for the groups of a reader. They are those of the reader if empty.
	Groups string `json:"groups,omitempty"`
	// Party is the text of the party of the cluster, which is empty if it is one by itself. Parties share the memory for RBAC objects.
	Party string `json:"party,omitempty"`
}

// Encode returns the policy as the store keeps it. It fails if an expression is wrong.
func (p Policy) Encode() (string, error) {
	if _, err := newIdentities(p); err != nil {
		return "", err
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// identities are who readers are in a cluster.
type identities struct {
	policy           Policy
	username, groups celgo.Program
}

func decodePolicy(text string) (*identities, error) {
	var p Policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, err
	}
	return newIdentities(p)
}

func newIdentities(p Policy) (*identities, error) {
	i := &identities{policy: p}
	var err error
	if i.username, err = compile(p.Username, celgo.StringType); err != nil {
		return nil, fmt.Errorf("memberRBAC.username: %w", err)
	}
	if i.groups, err = compile(p.Groups, celgo.ListType(celgo.StringType)); err != nil {
		return nil, fmt.Errorf("memberRBAC.groups: %w", err)
	}
	return i, nil
}

// compiler knows the variable user, as expressions of an AuthenticationConfiguration do.
var compiler = sync.OnceValue(cel.NewDefaultCompiler)

// expression is one that may have any type: compile checks it.
type expression string

func (e expression) GetExpression() string      { return string(e) }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }

func compile(text string, want *celgo.Type) (celgo.Program, error) {
	if text == "" {
		return nil, nil // there is no expression
	}
	result, err := compiler().CompileUserExpression(expression(text))
	if err != nil {
		return nil, err
	}
	if got := result.AST.OutputType(); !want.IsAssignableType(got) {
		return nil, fmt.Errorf("it must be of the type %s, not %s", want, got)
	}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	return env.Program(result.AST, celgo.CostLimit(maxCost), celgo.InterruptCheckFrequency(interruptChecks))
}

const (
	// maxCost bounds the evaluation of an expression. A reader for whom it is not enough has no identity in the cluster.
	maxCost = celconfig.PerCallLimit
	// interruptChecks is how many steps of loops an expression takes between two looks at its deadline.
	interruptChecks = 100
)

const systemPrefix = "system:"

// of returns who a reader is in the cluster, or nil if no user is meant. Names of Kubernetes itself are those of another cluster, such as
// service accounts and nodes, so they have no rights there, unless an expression makes other names of them.
func (i *identities) of(ctx context.Context, reader user.Info) (user.Info, error) {
	if i.policy.Home {
		return reader, nil
	}
	name, groups := reader.GetName(), reader.GetGroups()
	variables := map[string]any{"user": map[string]any{
		"username": name, "uid": reader.GetUID(), "groups": groups, "extra": reader.GetExtra(),
	}}
	if err := evaluate(ctx, i.username, variables, &name); err != nil {
		return nil, fmt.Errorf("memberRBAC.username: %w", err)
	}
	if err := evaluate(ctx, i.groups, variables, &groups); err != nil {
		return nil, fmt.Errorf("memberRBAC.groups: %w", err)
	}
	if name == "" || strings.HasPrefix(name, systemPrefix) {
		return nil, nil // no user is meant
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return strings.HasPrefix(group, systemPrefix) })
	if slices.Contains(reader.GetGroups(), user.AllAuthenticated) {
		groups = append(groups, user.AllAuthenticated)
	}
	return &user.DefaultInfo{Name: name, Groups: groups}, nil
}

// evaluate sets a value to that of an expression. Without one, it leaves the value.
func evaluate[T any](ctx context.Context, program celgo.Program, variables map[string]any, value *T) error {
	if program == nil {
		return nil
	}
	result, _, err := program.ContextEval(ctx, variables)
	if err != nil {
		return err
	}
	native, err := result.ConvertToNative(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	*value = native.(T)
	return nil
}
