{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "tripod.network.peer" -}}
- podSelector:
    matchLabels:
      {{- include "tripod.selector" . | nindent 6 }}
{{- end -}}

{{- /* The way to the etcd of a component. An external one may be anywhere, at the ports in its URLs. */ -}}
{{- define "tripod.network.etcd" -}}
{{- if include "tripod.additional.unstored" . -}}
{{- else if and .root.Values.etcd.enabled (not (include "tripod.additional.etcd" . | fromJson)) -}}
{{- include "tripod.network.members" (dict "root" .root "name" (include "tripod.etcd.name" .)) -}}
{{- else -}}
{{- include "tripod.network.ports" (splitList "," (include "tripod.etcd.servers" .)) -}}
{{- end -}}
{{- with include "tripod.partitions.etcd" . | fromJson }}
{{- if .name }}
{{ include "tripod.network.members" (dict "root" $.root "name" .name) }}
{{- else }}
{{ include "tripod.network.ports" .servers }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The way to an etcd of the release: dict root, name. */ -}}
{{- define "tripod.network.members" -}}
- ports:
    - {port: 2379}
  to:
    - podSelector:
        matchLabels:
          {{- include "tripod.etcd.selector" (dict "root" .root "component" "etcd" "name" .name) | nindent 10 }}
{{- end -}}

{{- /* The way to the ports in URLs. */ -}}
{{- define "tripod.network.ports" -}}
- ports:
    {{- $ports := list -}}
    {{- range . -}}
    {{- $ports = append $ports (regexFind "[0-9]+$" . | default "443") -}}
    {{- end -}}
    {{- range uniq $ports }}
    - {port: {{ . }}}
    {{- end }}
{{- end -}}

{{- /* Webhooks, OIDC issuers, kubelets, aggregated API servers: anywhere, or where the values say. */ -}}
{{- define "tripod.network.outside" -}}
{{- with .Values.networkPolicy.outside -}}
- to:
    {{- toYaml . | nindent 4 }}
{{- else -}}
- {}
{{- end -}}
{{- end -}}
