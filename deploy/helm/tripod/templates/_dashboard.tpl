{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* A dashboard for Grafana, as JSON, from a short description in monitoring/dashboards: dict name, title, rows, variable. */ -}}
{{- define "tripod.dashboard" -}}
{{- $datasource := dict "type" "prometheus" "uid" "${datasource}" -}}
{{- $panels := list -}}
{{- $id := 0 -}}
{{- $y := 0 -}}
{{- range .rows -}}
{{- $id = add1 $id -}}
{{- $panels = append $panels (dict "id" $id "type" "row" "title" .title "collapsed" false "panels" list "gridPos" (dict "x" 0 "y" $y "w" 24 "h" 1)) -}}
{{- $y = add1 $y -}}
{{- $width := div 24 (len .panels) -}}
{{- range $column, $panel := .panels -}}
{{- $id = add1 $id -}}
{{- $targets := list -}}
{{- range $index, $query := $panel.queries -}}
{{- $targets = append $targets (dict "refId" (substr $index (int (add1 $index)) "ABCDEFGH") "datasource" $datasource "expr" $query.expr "legendFormat" (default "__auto" $query.legend)) -}}
{{- end -}}
{{- $panels = append $panels (dict "id" $id "type" (default "timeseries" $panel.type) "title" $panel.title "description" (default "" $panel.description)
  "datasource" $datasource "targets" $targets "gridPos" (dict "x" (mul $column $width) "y" $y "w" $width "h" 8)
  "fieldConfig" (dict "defaults" (dict "unit" (default "short" $panel.unit) "min" 0) "overrides" list)
  "options" (ternary (dict) (dict "legend" (dict "displayMode" "list" "placement" "bottom") "tooltip" (dict "mode" "multi" "sort" "desc")) (eq (default "timeseries" $panel.type) "stat"))) -}}
{{- end -}}
{{- $y = add $y 8 -}}
{{- end -}}
{{- $more := list -}}
{{- with .variable -}}
{{- $more = append $more (dict "name" .name "type" "query" "label" .label "datasource" $datasource "refresh" 2 "multi" true "includeAll" true
  "definition" .values "query" (dict "query" .values "refId" .name)) -}}
{{- end -}}
{{- dict "uid" (printf "tripod-%s" .name) "title" .title "tags" (list "tripod") "schemaVersion" 39 "editable" true "refresh" "30s"
  "time" (dict "from" "now-1h" "to" "now") "timezone" "browser" "panels" $panels
  "links" (list (dict "title" "Tripod" "type" "dashboards" "tags" (list "tripod") "asDropdown" false "includeVars" true "keepTime" true))
  "templating" (dict "list" (concat (list
    (dict "name" "datasource" "type" "datasource" "query" "prometheus" "label" "Data source")
    (dict "name" "namespace" "type" "query" "label" "Namespace" "datasource" $datasource "refresh" 2
      "definition" "label_values(up{tripod_service=\"aggregator\"}, namespace)"
      "query" (dict "query" "label_values(up{tripod_service=\"aggregator\"}, namespace)" "refId" "namespace"))) $more)) | toJson -}}
{{- end -}}
