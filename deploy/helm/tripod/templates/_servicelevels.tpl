{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /*
The service levels, as a JSON object by name: errors and requests are what clients see, as rates of 5 minutes. The aggregators count them, also
what they answer in place of services that are away. A request is an error if it gets a status of 5xx or takes too long: a second for one object
and a write, 5 seconds for a list in a namespace, 30 seconds for one of the cluster, without the time of webhooks. For watches, only the status
counts. Probes are no requests of clients: their subresource is their path. The aggregators count requests to additional API services in none of these
metrics, neither good nor bad ones, so groups that are not built in are those of extensions and its partitions. Aggregated API servers are measured by attempts at their replicas, whose time is their own.
*/ -}}
{{- define "tripod.serviceLevels" -}}
{{- $builtIn := printf "|%s" (.Files.Get "groups.json" | fromJsonArray | join "|" | replace "." "[.]") -}}
{{- $from := printf "namespace=%q, tripod_service=\"aggregator\"" .Release.Namespace -}}
{{- $streams := "subresource!~\"proxy|attach|exec|log|portforward|/.*\"" -}}
{{- $levels := dict -}}
{{- range $name, $level := dict
  "reads" (dict "title" "reads of built-in resources" "select" (printf "verb=~\"GET|LIST\", group=~%q" $builtIn))
  "writes" (dict "title" "writes of built-in resources" "select" (printf "verb=~\"POST|PUT|PATCH|DELETE|DELETECOLLECTION|APPLY\", group=~%q" $builtIn))
  "customResources" (dict "title" "reads and writes of custom resources"
    "select" (printf "verb=~\"GET|LIST|POST|PUT|PATCH|DELETE|DELETECOLLECTION|APPLY\", group!~%q" $builtIn)) -}}
{{- $select := printf "%s, %s, %s" $from $level.select $streams -}}
{{- $_ := set $levels $name (dict "title" $level.title
  "requests" (printf "sum(rate(apiserver_request_total{%s}[5m]))" $select)
  "errors" (printf "(sum(rate(apiserver_request_total{%[1]s, code=~\"5..\"}[5m])) or vector(0))\n  + (sum(rate(apiserver_request_sli_duration_seconds_count{%[1]s}[5m])) or vector(0))\n  - (sum(rate(apiserver_request_sli_duration_seconds_bucket{%[1]s, scope!~\"namespace|cluster\", le=~\"1|1[.]0\"}[5m])) or vector(0))\n  - (sum(rate(apiserver_request_sli_duration_seconds_bucket{%[1]s, verb!=\"LIST\", scope=~\"namespace|cluster\", le=~\"1|1[.]0\"}[5m])) or vector(0))\n  - (sum(rate(apiserver_request_sli_duration_seconds_bucket{%[1]s, verb=\"LIST\", scope=\"namespace\", le=~\"5|5[.]0\"}[5m])) or vector(0))\n  - (sum(rate(apiserver_request_sli_duration_seconds_bucket{%[1]s, verb=\"LIST\", scope=\"cluster\", le=~\"30|30[.]0\"}[5m])) or vector(0))" $select)) -}}
{{- end -}}
{{- $watches := printf "%s, verb=~\"WATCH|WATCHLIST\"" $from -}}
{{- $_ := set $levels "watches" (dict "title" "watches"
  "requests" (printf "sum(rate(apiserver_request_total{%s}[5m]))" $watches)
  "errors" (printf "(sum(rate(apiserver_request_total{%s, code=~\"5..\"}[5m])) or vector(0))" $watches)) -}}
{{- $aggregated := printf "%s, backend=~\".*[.].*\"" $from -}}
{{- $_ := set $levels "aggregatedAPIs" (dict "title" "requests to aggregated API servers"
  "requests" (printf "sum(rate(tripod_backend_requests_total{%s}[5m]))" $aggregated)
  "errors" (printf "(sum(rate(tripod_backend_requests_total{%s, code=~\"5xx|error\"}[5m])) or vector(0))" $aggregated)) -}}
{{- toJson $levels -}}
{{- end -}}

{{- /*
The rules of service levels. Alerts are those of chapter 5 of Google's Site Reliability Workbook: an alert fires if a long and a short window burn
the error budget of 30 days too fast. Ratios of long windows are sums of the recorded rates, which costs less than rates of long windows.
*/ -}}
{{- define "tripod.serviceLevels.rules" -}}
{{- $values := .Values.metrics.prometheusRule -}}
{{- $levels := include "tripod.serviceLevels" . | fromJson -}}
{{- range $name, $level := $levels }}
{{- range $what := list "errors" "requests" }}
- record: tripod:service_level_{{ $what }}:rate5m
  labels: {service_level: {{ $name }}, namespace: {{ $.Release.Namespace | quote }}}
  expr: |
    {{- get $level $what | nindent 4 }}
{{- end }}
{{- end }}
{{- range $window := list "5m" "30m" "1h" "2h" "6h" "1d" "3d" }}
- record: tripod:service_level_error_ratio:rate{{ $window }}
  expr: |
    sum_over_time(tripod:service_level_errors:rate5m{namespace="{{ $.Release.Namespace }}"}[{{ $window }}])
      / sum_over_time(tripod:service_level_requests:rate5m{namespace="{{ $.Release.Namespace }}"}[{{ $window }}])
{{- end }}
{{- range $name, $level := $levels }}
{{- $alert := printf "Tripod%s%sBurn" (trunc 1 $name | upper) (substr 1 (len $name) $name) }}
{{- $budget := printf "(1 - %v / 100)" (get $values.objectives $name) }}
{{- $selector := printf "{namespace=%q, service_level=%q}" $.Release.Namespace $name }}
{{- range list
  (dict "severity" "critical" "for" "2m" "rates" (list (list "1h" "5m" "14.4") (list "6h" "30m" "6")))
  (dict "severity" "warning" "for" "15m" "rates" (list (list "1d" "2h" "3") (list "3d" "6h" "1"))) }}
- alert: {{ $alert }}
  expr: |
    {{- range $i, $rate := .rates }}
    {{ ternary "or " "" (gt $i 0) }}(tripod:service_level_error_ratio:rate{{ index $rate 0 }}{{ $selector }} > {{ index $rate 2 }} * {{ $budget }}
      and tripod:service_level_error_ratio:rate{{ index $rate 1 }}{{ $selector }} > {{ index $rate 2 }} * {{ $budget }})
    {{- end }}
  for: {{ .for }}
  labels:
    {{- merge (dict "severity" .severity "namespace" $.Release.Namespace) $values.alertLabels | toYaml | nindent 4 }}
  annotations:
    summary: {{ printf "Too many %s fail or are slow." $level.title | quote }}
    description: {{ printf "{{ $value | humanizePercentage }} of them were bad, and the objective is that %v%% are good. At this rate, the error budget of 30 days ends early." (get $values.objectives $name) | quote }}
    {{- with $values.runbookURL }}
    runbook_url: {{ printf "%s#%s" . (lower $alert) }}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}
