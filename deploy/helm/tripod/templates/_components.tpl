{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The names of Tripod's own services that a release runs only if their values say so, as a JSON list. services.json has all services. */ -}}
{{- define "tripod.optional" -}}
{{- $names := list -}}
{{- range .Files.Get "services.json" | fromJsonArray -}}{{- if .optional -}}{{- $names = append $names .name -}}{{- end -}}{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- /* The values of the additional API services by name, as JSON: those of the user, and Tripod's own that are enabled. */ -}}
{{- define "tripod.services" -}}
{{- $all := deepCopy .Values.services -}}
{{- range $name := include "tripod.optional" . | fromJsonArray -}}
{{- if (get $.Values $name).enabled -}}
{{- if hasKey $all $name -}}{{- fail (printf "services.%s and %[1]s.enabled cannot both be given" $name) -}}{{- end -}}
{{- if eq $name "search" -}}
{{- range $role, $component := include "tripod.search.components" $ | fromJson -}}
{{- $_ := set $all $component (include "tripod.search.values" (dict "root" $ "role" $role) | fromJson) -}}
{{- end -}}
{{- else -}}
{{- $_ := set $all $name (include "tripod.optional.values" (dict "root" $ "component" $name) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* The values of one of Tripod's own services, as those of an additional API service, as JSON: dict root, component. Its block has `serve`, the values that core has
too, and may have `groups` and `etcd`. */ -}}
{{- define "tripod.optional.values" -}}
{{- $block := get .root.Values .component -}}
{{- $values := deepCopy (default dict $block.serve) -}}
{{- $_ := set $values "args" (default list $values.extraArgs) -}}
{{- $_ := set $values "image" (include "tripod.optional.image" . | fromJson) -}}
{{- $_ := merge $values (pick $block "groups" "etcd") -}}
{{- toJson $values -}}
{{- end -}}

{{- /* The image of one of Tripod's own services in the form of an additional API service, as JSON: dict root, component. */ -}}
{{- define "tripod.optional.image" -}}
{{- include "tripod.image.values" (dict "root" .root "name" (printf "tripod-%s" .component)) -}}
{{- end -}}

{{- /* The names of the additional API services, as a JSON list. */ -}}
{{- define "tripod.additional" -}}
{{- without (include "tripod.services" . | fromJson | keys) "search-sync" | sortAlpha | toJson -}}
{{- end -}}

{{- /* The names of all services, as a JSON list. */ -}}
{{- define "tripod.components" -}}
{{- concat (list "aggregator") (include "tripod.backends" . | fromJsonArray) | toJson -}}
{{- end -}}

{{- /* The names of all Deployments, as a JSON list: those of services, and of the replicas of search that answer no client. */ -}}
{{- define "tripod.deployments" -}}
{{- $all := include "tripod.components" . | fromJsonArray -}}
{{- if and .Values.search.enabled (ne (include "tripod.search.database" .) "sqlite") -}}{{- $all = append $all "search-sync" -}}{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* The names of the services that the aggregator sends requests to, as a JSON list. */ -}}
{{- define "tripod.backends" -}}
{{- concat (list "core" "extensions") (include "tripod.partitions" . | fromJson | keys | sortAlpha) (include "tripod.additional" . | fromJsonArray) | toJson -}}
{{- end -}}

{{- /* Whether a component is an additional API service, true or nothing: dict root, component. */ -}}
{{- define "tripod.isAdditional" -}}
{{- if hasKey (include "tripod.services" .root | fromJson) .component -}}true{{- end -}}
{{- end -}}

{{- /* The values of a service, as JSON: dict root, component. */ -}}
{{- define "tripod.values" -}}
{{- if include "tripod.isAdditional" . -}}
{{- $values := get (include "tripod.services" .root | fromJson) .component -}}
{{- if eq (toString $values.replicas) "preset" -}}{{- $_ := unset $values "replicas" -}}{{- end -}}
{{- include "tripod.values.fill" (dict "values" $values "defaults" (include "tripod.values.defaults" . | fromYaml)) -}}
{{- $_ := set $values "extraArgs" $values.args -}}
{{- toJson $values -}}
{{- else if include "tripod.isPartition" . -}}
{{- get (include "tripod.partitions" .root | fromJson) .component | toJson -}}
{{- else -}}
{{- get .root.Values .component | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The values of an additional API service that are not given. The comments of services in values.yaml describe them. */ -}}
{{- define "tripod.values.defaults" -}}
image: {tag: latest, pullPolicy: IfNotPresent}
args: []
groups: []
balance: ""
encryption: false
etcd: {enabled: true, servers: [], secret: ""}
replicas: 1
strategy: ""
autoscaling: {enabled: false, minReplicas: 2, maxReplicas: 5, averageCPU: "1", averageMemory: "", metrics: [], behavior: {}}
podDisruptionBudget: {enabled: true, maxUnavailable: 1}
resources:
  requests: {cpu: 100m, memory: 64Mi}
  limits: {memory: 512Mi}
goGC: ""
shutdown: {delay: 5, watches: 10, requests: 30}
env: []
volumes: []
volumeMounts: []
containers: []
podLabels: {}
podAnnotations: {}
nodeSelector: {}
tolerations: []
affinity: {}
topologySpreadConstraints: null
priorityClassName: ""
{{- end -}}

{{- /* Adds defaults to values, also below maps: dict values, defaults. It keeps false and 0, which merge would not. */ -}}
{{- define "tripod.values.fill" -}}
{{- range $key, $default := .defaults -}}
{{- $given := get $.values $key -}}
{{- if not (hasKey $.values $key) -}}
{{- $_ := set $.values $key $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" $given) -}}
{{- include "tripod.values.fill" (dict "values" $given "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The directories of an additional API service in the etcd of the release, comma separated: dict root, component. */ -}}
{{- define "tripod.additional.directories" -}}
{{- $directories := list -}}
{{- range (include "tripod.values" . | fromJson).groups -}}
{{- $directories = append $directories (printf "%s/%s" (trimSuffix "/" $.root.Values.etcd.prefix) .) -}}
{{- end -}}
{{- join "," $directories | default (include "tripod.additional.prefix" .) -}}
{{- end -}}

{{- /* The --etcd-prefix of a service: that of all services if it names its groups, and a directory of its own if not: dict root, component. */ -}}
{{- define "tripod.additional.prefix" -}}
{{- if and (include "tripod.isAdditional" .) (not (include "tripod.values" . | fromJson).groups) -}}
/services/{{ .component }}
{{- else -}}
{{ .root.Values.etcd.prefix }}
{{- end -}}
{{- end -}}

{{- /* The etcd that an additional API service has for itself, as JSON {servers, secret}: dict root, component. */ -}}
{{- define "tripod.additional.etcd" -}}
{{- $own := dict -}}
{{- if include "tripod.isAdditional" . -}}{{- $own = (include "tripod.values" . | fromJson).etcd -}}{{- end -}}
{{- ternary $own dict (not (empty $own.servers)) | toJson -}}
{{- end -}}

{{- /* Whether a component keeps nothing in etcd, true or nothing: dict root, component. */ -}}
{{- define "tripod.additional.unstored" -}}
{{- if include "tripod.isAdditional" . -}}{{- if not (include "tripod.values" . | fromJson).etcd.enabled -}}true{{- end -}}{{- end -}}
{{- end -}}
