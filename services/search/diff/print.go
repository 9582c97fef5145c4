// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// shownFields is how many fields of a change the summary names.
const shownFields = 3

// object returns the name of the object as kubectl writes it, such as deployment.apps/web.
func (k key) object() string {
	kind := strings.ToLower(k.Kind)
	if group := schema.FromAPIVersionAndKind(k.APIVersion, k.Kind).Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + k.Name
}

// Summary writes a line for each change.
func (a *Answer) Summary(out io.Writer, now time.Time) error {
	if len(a.Changes) == 0 {
		_, err := fmt.Fprintln(out, "Nothing has changed.")
		return err
	}
	table := printers.GetNewTabWriter(out)
	fmt.Fprintln(table, "LAST CHANGE\tCLUSTER\tNAMESPACE\tOBJECT\tCHANGE")
	for i := range a.Changes {
		c := &a.Changes[i]
		ago := "<unknown>"
		if !c.Time.IsZero() {
			ago = duration.HumanDuration(max(now.Sub(c.Time), 0))
		}
		what := string(c.Change)
		if len(c.Fields) > 0 {
			what += ": " + strings.Join(c.Fields[:min(len(c.Fields), shownFields)], ", ")
		}
		if more := len(c.Fields) - shownFields; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", ago, c.Cluster, c.Namespace, c.object(), what)
	}
	return table.Flush()
}

// Unified writes the changes of the YAML of each object, as diff -u does.
func (a *Answer) Unified(out io.Writer) error {
	for i := range a.Changes {
		c := &a.Changes[i]
		name := strings.Join([]string{c.Cluster, c.Namespace, c.object()}, "/")
		before, err := text(c.Before)
		if err != nil {
			return err
		}
		after, err := text(c.After)
		if err != nil {
			return err
		}
		from, to := name, name
		switch c.Change {
		case Added:
			from = "/dev/null"
		case Deleted:
			to = "/dev/null"
		}
		if _, err := io.WriteString(out, udiff.Unified(from, to, before, after)); err != nil {
			return err
		}
	}
	return nil
}

// text returns the YAML of an object, or nothing if there is no object.
func text(content map[string]any) (string, error) {
	if content == nil {
		return "", nil
	}
	encoded, err := yaml.Marshal(content)
	return string(encoded), err
}

// JSON writes everything.
func (a *Answer) JSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(a)
}
