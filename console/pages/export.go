// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tripod-k8s/tripod/console/query"
)

// exported reads the page of results that a download is about, and answers with an error itself.
func (c *console) exported(w http.ResponseWriter, req *http.Request) *results {
	values := req.URL.Query()
	q, err := query.Parse(values.Get("q"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	found, err := c.find(req.Context(), q, values.Get("continue"))
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return nil
	}
	return found
}

// exportCSV writes the results of a page, with all columns.
func (c *console) exportCSV(w http.ResponseWriter, req *http.Request) {
	found := c.exported(w, req)
	if found == nil {
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="results.csv"`)
	out := csv.NewWriter(w)
	var head []string
	for _, column := range found.Columns {
		head = append(head, harmless(column.Name))
	}
	out.Write(head) //nolint:errcheck // the client is gone
	for _, row := range found.Rows {
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, harmless(cell))
		}
		out.Write(cells) //nolint:errcheck // the client is gone
	}
	out.Flush()
}

// harmless keeps a spreadsheet from taking a text of a cluster for a formula.
func harmless(cell string) string {
	if strings.IndexAny(cell, "=+-@\t\r") == 0 {
		return "'" + cell
	}
	return cell
}

// exportedObject is an element of results.json.
type exportedObject struct {
	Cluster   string            `json:"cluster"`
	Group     string            `json:"group,omitempty"`
	Version   string            `json:"version"`
	Resource  string            `json:"resource"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Columns   map[string]string `json:"columns"`
}

// exportJSON writes the results of a page as a list.
func (c *console) exportJSON(w http.ResponseWriter, req *http.Request) {
	found := c.exported(w, req)
	if found == nil {
		return
	}
	all := []exportedObject{}
	for _, row := range found.Rows {
		columns := map[string]string{}
		for i, cell := range row.Cells {
			if i < len(found.Columns) {
				columns[found.Columns[i].Name] = cell
			}
		}
		all = append(all, exportedObject{row.Cluster, row.Group, row.Version, row.Resource, row.Namespace, row.Name, columns})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="results.json"`)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(all) //nolint:errcheck // the client is gone
}
