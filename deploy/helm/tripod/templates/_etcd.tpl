{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The names of the release's etcds, after the fullname, as a JSON list. */ -}}
{{- define "tripod.etcd.names" -}}
{{- $names := list -}}
{{- if .Values.etcd.enabled -}}
{{- $names = ternary (list "etcd" "etcd-extensions") (list "etcd") (eq .Values.etcd.mode "perService") -}}
{{- end -}}
{{- concat $names (include "tripod.partitions.etcds" . | fromJsonArray) | toJson -}}
{{- end -}}

{{- /* The values of an etcd of the release, as JSON: dict root, name. That of a partition has the values of etcd that it does not set itself. */ -}}
{{- define "tripod.etcd.values" -}}
{{- $values := deepCopy .root.Values.etcd -}}
{{- $_ := set $values "replicas" (include "tripod.setting" (dict "root" .root "path" "etcd.replicas") | int) -}}
{{- with include "tripod.partitions.ofEtcd" . -}}
{{- $own := deepCopy (include "tripod.values" (dict "root" $.root "component" .) | fromJson).etcd -}}
{{- include "tripod.values.fill" (dict "values" $own "defaults" (deepCopy $values)) -}}
{{- $values = $own -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{- /* The name of the etcd that a component uses, after the fullname: dict root, component. */ -}}
{{- define "tripod.etcd.name" -}}
{{- if and (eq .root.Values.etcd.mode "perService") (eq (include "tripod.program" .) "extensions") -}}
etcd-extensions
{{- else -}}
etcd
{{- end -}}
{{- end -}}

{{- /* The client URLs of the members of an etcd of the release: dict root, name. */ -}}
{{- define "tripod.etcd.members" -}}
{{- $set := printf "%s-%s" (include "tripod.fullname" .root) .name -}}
{{- $urls := list -}}
{{- range $i := until (include "tripod.setting" (dict "root" .root "path" "etcd.replicas") | int) -}}
{{- $urls = append $urls (printf "https://%s-%d.%s.%s.svc:2379" $set $i $set $.root.Release.Namespace) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{- /* The URLs of the etcd that a component uses: dict root, component. */ -}}
{{- define "tripod.etcd.servers" -}}
{{- $etcd := .root.Values.etcd -}}
{{- $own := include "tripod.additional.etcd" . | fromJson -}}
{{- if $own -}}
{{- join "," $own.servers -}}
{{- else if $etcd.enabled -}}
{{- include "tripod.etcd.members" (dict "root" .root "name" (include "tripod.etcd.name" .)) -}}
{{- else if and (eq $etcd.mode "perService") (eq (include "tripod.program" .) "extensions") -}}
{{- join "," $etcd.external.extensionsServers | required "etcd.external.extensionsServers is needed where etcd.mode is perService and etcd.enabled is false" -}}
{{- else -}}
{{- join "," $etcd.external.servers | required "etcd.external.servers is needed where etcd.enabled is false" -}}
{{- end -}}
{{- end -}}

{{- /* The components that use an etcd of the release: dict root, name. */ -}}
{{- define "tripod.etcd.users" -}}
{{- $users := list -}}
{{- with include "tripod.partitions.ofEtcd" . -}}{{- $users = append $users . -}}{{- end -}}
{{- range $component := include "tripod.components" .root | fromJsonArray -}}
{{- $context := dict "root" $.root "component" $component -}}
{{- $own := include "tripod.additional.etcd" $context | fromJson -}}
{{- if and (not $own) (not (include "tripod.additional.unstored" $context)) (eq $.name (include "tripod.etcd.name" $context)) -}}{{- $users = append $users $component -}}{{- end -}}
{{- end -}}
{{- toJson $users -}}
{{- end -}}

{{- /* Whether each replica has the certificate of its own user: true or nothing. An earlier chart had the user tripod for all, and its replicas are there
until an upgrade has succeeded. So this looks at the Deployments, before Helm changes them. */ -}}
{{- define "tripod.etcd.ownUsers" -}}
{{- $own := true -}}
{{- range $component := list "aggregator" "core" "extensions" -}}
{{- $deployment := lookup "apps/v1" "Deployment" $.Release.Namespace (printf "%s-%s" (include "tripod.fullname" $) $component) -}}
{{- $volumes := dig "spec" "template" "spec" "volumes" list $deployment | toJson -}}
{{- $status := dig "status" dict $deployment -}}
{{- $observed := eq (dig "metadata" "generation" 0 $deployment | int) (dig "observedGeneration" 0 $status | int) -}}
{{- $updated := eq (dig "replicas" 0 $status | int) (dig "updatedReplicas" 0 $status | int) -}}
{{- $own = and $own $observed $updated (contains (printf "-client-%s\"" $component) $volumes) -}}
{{- end -}}
{{- if $own -}}true{{- end -}}
{{- end -}}

{{- /* The name of the Secret with a component's client certificate for its etcd, or nothing: dict root, component, administrator. With administrator,
the certificate is of the user root, for Jobs. */ -}}
{{- define "tripod.etcd.secret" -}}
{{- $etcd := .root.Values.etcd -}}
{{- $own := include "tripod.additional.etcd" . | fromJson -}}
{{- if include "tripod.additional.unstored" . -}}
{{- else if $own -}}
{{- $own.secret -}}
{{- else if $etcd.enabled -}}
{{- include "tripod.fullname" .root }}-{{ include "tripod.etcd.name" . }}-client{{ if not .administrator }}-{{ .component }}{{ end }}
{{- else if and (include "tripod.isAdditional" .) (include "tripod.values" . | fromJson).etcd.secret -}}
{{- (include "tripod.values" . | fromJson).etcd.secret -}}
{{- else if and (not .administrator) (get $etcd.external.serviceSecrets .component) -}}
{{- get $etcd.external.serviceSecrets .component -}}
{{- else if and (eq $etcd.mode "perService") (eq (include "tripod.program" .) "extensions") -}}
{{- $etcd.external.extensionsSecret -}}
{{- else -}}
{{- $etcd.external.secret -}}
{{- end -}}
{{- end -}}

{{- /* Whether extensions and its partitions are stopped, so that custom resources can be copied to an etcd of their own. */ -}}
{{- define "tripod.etcd.splitting" -}}
{{- $stopped := true -}}
{{- range prepend (include "tripod.partitions" . | fromJson | values) .Values.extensions -}}
{{- $stopped = and $stopped (not .autoscaling.enabled) (eq (toString .replicas) "0") -}}
{{- end -}}
{{- and .Values.etcd.enabled (eq .Values.etcd.mode "perService") $stopped -}}
{{- end -}}

