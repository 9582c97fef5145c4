{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Fails if a Service has what its type does not allow, because the API server would refuse it: dict type, typePath, values, path. */ -}}
{{- define "tripod.network.checkService" -}}
{{- $public := list "NodePort" "LoadBalancer" -}}
{{- $balanced := list "LoadBalancer" -}}
{{- range $name, $types := dict "nodePort" $public "externalTrafficPolicy" $public "loadBalancerClass" $balanced "loadBalancerSourceRanges" $balanced -}}
{{- if and (get $.values $name) (not (has $.type $types)) -}}
{{- fail (printf "%s.%s needs %s %s, and that is %s" $.path $name $.typePath (join " or " $types) $.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}

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

{{- /* The way to the bucket of snapshots, which may be anywhere. Without a Secret, pods ask the cloud for credentials: a server of its API, or addresses that
only the node has. */ -}}
{{- define "tripod.network.bucket" -}}
{{- $s3 := .Values.etcd.snapshots.s3 -}}
{{- $port := regexFind "[0-9]+$" ($s3.endpoint | trimSuffix "/" | regexFind ":[0-9]+$") | default (ternary "80" "443" (hasPrefix "http://" $s3.endpoint)) -}}
- ports:
    {{- range uniq (ternary (list $port) (list $port "443") (ne $s3.secret "")) }}
    - {port: {{ . }}}
    {{- end }}
{{- if not $s3.secret }}
- ports:
    - {port: 80}
  to:
    - ipBlock: {cidr: 169.254.0.0/16}
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
