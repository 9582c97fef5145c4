{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The certificates of a service, in one projected volume, so that they change together: dict root, component. */ -}}
{{- define "tripod.pki.volume" -}}
{{- $fullname := include "tripod.fullname" .root -}}
name: pki
projected:
  defaultMode: 0440
  sources:
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-%s" $fullname (include "tripod.identity" .)) "directory" "service" "ca" "service-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.etcd" . | nindent 4 }}
    {{- with (include "tripod.partitions.etcd" . | fromJson).secret }}
    {{- include "tripod.pki.leaf" (dict "secret" . "directory" "group-etcd-client" "ca" "group-etcd-ca.crt") | nindent 4 }}
    {{- end }}
    {{- if eq .component "aggregator" }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-front-proxy-client" $fullname) "directory" "front-proxy-client" "ca" "front-proxy-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-apiserver" $fullname) "directory" "apiserver" "ca" "client-ca.crt") | nindent 4 }}
    {{- end }}
    {{- if eq .component "core" }}
    {{- /* Only the aggregator needs the key. */}}
    - secret: {name: {{ $fullname }}-front-proxy-client, items: [{key: ca.crt, path: front-proxy-ca.crt}]}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-kubelet-client" $fullname) "directory" "kubelet-client" "ca" "client-ca.crt") | nindent 4 }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-service-account" $fullname) "directory" "service-account") | nindent 4 }}
    {{- end }}
{{- end -}}

{{- /* A certificate with its key, and the authorities that are trusted with it: dict secret, directory, ca. These are in its Secret, so that no pod
has a Secret with the key of an authority. */ -}}
{{- define "tripod.pki.leaf" -}}
- secret:
    name: {{ .secret }}
    items:
      - {key: tls.crt, path: {{ .directory }}/tls.crt}
      - {key: tls.key, path: {{ .directory }}/tls.key}
      {{- with .ca }}
      - {key: ca.crt, path: {{ . }}}
      {{- end }}
{{- end -}}

{{- /* The client certificate of the user root of an etcd of the release, for Jobs: dict root, name. */ -}}
{{- define "tripod.pki.administrator" -}}
{{- include "tripod.pki.leaf" (dict "secret" (printf "%s-%s-client" (include "tripod.fullname" .root) .name) "directory" "etcd-client" "ca" "etcd-ca.crt") -}}
{{- end -}}

{{- /* The client certificates for etcd: of the release's etcd, or of an external one: dict root, component. */ -}}
{{- define "tripod.pki.etcd" -}}
{{- with include "tripod.etcd.secret" . -}}
{{- include "tripod.pki.leaf" (dict "secret" . "directory" "etcd-client" "ca" "etcd-ca.crt") -}}
{{- end -}}
{{- end -}}
