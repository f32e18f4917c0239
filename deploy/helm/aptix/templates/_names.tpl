{{- define "aptix.labels" -}}
{app.kubernetes.io/name: aptix, app.kubernetes.io/instance: {{ .Release.Name }}}
{{- end -}}
