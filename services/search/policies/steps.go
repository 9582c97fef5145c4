// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"reflect"
	"text/template"
	"text/template/parse"
)

// maxSteps bounds how many elements a template goes through, and how many templates it calls. Nothing else takes long: a template is as long as the
// policy that has it.
const maxSteps = 1_000_000

// Names of functions that count steps. A policy may call them, too, which only takes steps.
const (
	stepName     = "step"
	elementsName = "elements"
)

var errTooLong = errors.New("it goes through more than a million elements")

// steps counts the steps of one execution.
type steps int

func (s *steps) functions() template.FuncMap {
	return template.FuncMap{
		stepName: func() (string, error) { return "", s.take(1) },
		elementsName: func(over any) (any, error) {
			switch v := reflect.ValueOf(over); v.Kind() {
			case reflect.Map, reflect.Slice, reflect.Array:
				return over, s.take(v.Len())
			case reflect.Invalid:
				return over, nil
			default:
				return nil, errors.New("range takes a list or a map")
			}
		},
	}
}

func (s *steps) take(n int) error {
	if *s += steps(n); *s > maxSteps {
		return errTooLong
	}
	return nil
}

// counting are the nodes that count: the call of a template, and what follows the list of a range.
var counting = func() (calls *parse.ActionNode, elements *parse.CommandNode) {
	trees := template.Must(template.New("").Funcs(new(steps).functions()).Parse("{{" + stepName + "}}{{. | " + elementsName + "}}"))
	nodes := trees.Root.Nodes
	return nodes[0].(*parse.ActionNode), nodes[1].(*parse.ActionNode).Pipe.Cmds[1]
}

// count makes the templates of t count their steps.
func count(t *template.Template) {
	call, elements := counting()
	for _, defined := range t.Templates() {
		if defined.Tree == nil || defined.Root == nil {
			continue
		}
		countIn(defined.Root, elements)
		defined.Root.Nodes = append([]parse.Node{call}, defined.Root.Nodes...)
	}
}

func countIn(list *parse.ListNode, elements *parse.CommandNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		var branch *parse.BranchNode
		switch n := node.(type) {
		case *parse.RangeNode:
			n.Pipe.Cmds = append(n.Pipe.Cmds, elements)
			branch = &n.BranchNode
		case *parse.IfNode:
			branch = &n.BranchNode
		case *parse.WithNode:
			branch = &n.BranchNode
		default:
			continue
		}
		countIn(branch.List, elements)
		countIn(branch.ElseList, elements)
	}
}
