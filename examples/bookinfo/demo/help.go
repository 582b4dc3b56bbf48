package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

var helpText = template.Must(template.New("help").Parse(`
Bookinfo is at {{.Page}}/productpage
The mesh is at {{.Mesh}}/ for a browser: proxies, services, who may reach whom, the last changes

Try next:
  All reviews come from v1. Count them:
    for i in $(seq 100); do curl -s {{.Page}}/api/v1/products/0 | grep -o '"version":"v."'; done | sort | uniq -c
  Send 20 % to v2: change the two weights at
    {{.Rules}}
  and count again; it takes effect when you save.
  Sign in as jason on the page, or be him: reviews v2 and its stars, whatever the weights say:
    curl -s -H 'end-user: jason' {{.Page}}/api/v1/products/0
  Kill one of the Envoys; its agent brings it back:
    pgrep -a envoy

{{- with .Consul}}
  See what Consul knows, and deregister reviews v1 there: the page says at once that there are no reviews.
    curl -s {{.}}/v1/health/service/reviews
    curl -X PUT {{.}}/v1/agent/service/deregister/reviews-v1
{{- end}}

{{- with .Strict}}
  The sidecars take mutual TLS alone. Ask reviews as nobody, through the sidecar of details (403), and through productpage's:
    curl {{.Reviews}}
    curl -x {{.Details}} http://reviews:9080/reviews/0
    curl -x {{.Productpage}} http://reviews:9080/reviews/0
  The policy of reviews is at
    {{.Policy}}
{{- end}}

Envoy's admin interface of
{{- range .Sidecars}}
  {{printf "%-15s" .Name}} {{.Admin}}/clusters
{{- end}}
Logs: {{.Run}}/*.log

Ctrl-C stops everything.
`))

// help prints where the page is and what to try next.
func (d *demo) help() error {
	rules, err := locate(filepath.Join(d.plan.config, "reviews.yaml"), "weight:")
	if err != nil {
		return err
	}
	at := ""
	if d.consulAt != "" {
		at = local(consulPort+d.offset, "")
	}
	strict, err := d.strict()
	if err != nil {
		return err
	}
	return helpText.Execute(d.stdout, map[string]any{
		"Page": d.page, "Mesh": local(httpPort+d.offset, ""), "Rules": rules, "Sidecars": d.sidecars, "Run": d.run, "Consul": at, "Strict": strict,
	})
}

// locate returns "path:line" of the first line that holds text.
func locate(path, text string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	before, _, found := bytes.Cut(data, []byte(text))
	if !found {
		return "", fmt.Errorf("%s: has no line with %q", path, text)
	}
	return fmt.Sprintf("%s:%d", path, bytes.Count(before, []byte("\n"))+1), nil
}
