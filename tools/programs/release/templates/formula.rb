# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

class {{.Class}} < Formula
  desc "Kubernetes API server as three services"
  homepage "https://github.com/tripod-k8s/tripod"
  version "{{.Number}}"
  license "Apache-2.0"

  depends_on :linux
{{range .Platforms}}
  on_{{.Family}} do
    url "{{$.Download}}/tripod-{{$.Version}}-{{.Name}}.tar.gz"
    sha256 "{{.Sum}}"
  end
{{end}}
  def install
    bin.install {{range $i, $p := .Programs}}{{if $i}}, {{end}}"{{$p}}"{{end}}
  end

  test do
    assert_match "{{.Version}}", shell_output("#{bin}/tripod version")
  end
end
