{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Certificates of a service, all in one projected volume, so that what belongs together changes together: dict root, component. */ -}}
{{- define "tripod.pki.volume" -}}
{{- $fullname := include "tripod.fullname" .root -}}
name: pki
projected:
  defaultMode: 0440
  sources:
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-%s" $fullname .component) "directory" "service") | nindent 4 }}
    {{- include "tripod.pki.ca" (dict "secret" (printf "%s-service-ca" $fullname) "file" "service-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.etcd" (merge (dict "fullname" $fullname) .) | nindent 4 }}
    {{- if ne .component "extensions" }}
    {{- include "tripod.pki.ca" (dict "secret" (printf "%s-ca" $fullname) "file" "client-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.ca" (dict "secret" (printf "%s-front-proxy-ca" $fullname) "file" "front-proxy-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-front-proxy-client" $fullname) "directory" "front-proxy-client") | nindent 4 }}
    {{- end }}
    {{- if eq .component "aggregator" }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-apiserver" $fullname) "directory" "apiserver") | nindent 4 }}
    {{- end }}
    {{- if eq .component "core" }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-kubelet-client" $fullname) "directory" "kubelet-client") | nindent 4 }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-service-account" $fullname) "directory" "service-account") | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "tripod.pki.leaf" -}}
- secret:
    name: {{ .secret }}
    items:
      - {key: tls.crt, path: {{ .directory }}/tls.crt}
      - {key: tls.key, path: {{ .directory }}/tls.key}
{{- end -}}

{{- define "tripod.pki.ca" -}}
- secret:
    name: {{ .secret }}
    items:
      - {key: ca.crt, path: {{ .file }}}
{{- end -}}

{{- /* Certificates for etcd: those of the release, or those that came with a foreign one. */ -}}
{{- define "tripod.pki.etcd" -}}
{{- $secret := include "tripod.etcd.secret" . -}}
{{- if .root.Values.etcd.enabled -}}
{{ include "tripod.pki.leaf" (dict "secret" $secret "directory" "etcd-client") }}
{{ include "tripod.pki.ca" (dict "secret" (printf "%s-etcd-ca" .fullname) "file" "etcd-ca.crt") }}
{{- else if $secret -}}
{{ include "tripod.pki.leaf" (dict "secret" $secret "directory" "etcd-client") }}
{{ include "tripod.pki.ca" (dict "secret" $secret "file" "etcd-ca.crt") }}
{{- end -}}
{{- end -}}
