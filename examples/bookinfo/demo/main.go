package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/template"
)

func main() {
	// A child's parent-death signal is tied to the thread that forked it. This goroutine forks all of them, and its
	// thread lives as long as the process.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command returns 0 when the demo was asked to stop, 1 when it could not go on, 2 when it was called wrongly.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.bin, "bin", "bin", "folder of the binaries: agent, discovery, bookinfo, envoy")
	flags.StringVar(&o.config, "config", "examples/bookinfo/config", "folder of Istio YAML")
	flags.StringVar(&o.run, "run", "run", "folder for logs, and for what the agents write")
	flags.StringVar(&o.addresses, "addresses", defaultAddresses, "first three bytes of the services' loopback addresses; "+
		"for others than the default the configuration is copied to the run folder")
	flags.IntVar(&o.offset, "port-offset", 0, "added to the ports of discovery, admin and outbound traffic")
	flags.StringVar(&o.registry, "registry", "", "where the services are registered: consul for a real Consul, which the demo starts; "+
		"empty for the configuration itself")
	flags.BoolVar(&o.mtls, "mtls", false, "mutual TLS: discovery is an authority, the mesh STRICT, and only productpage may read reviews; "+
		"a gateway has the page, and the configuration is copied to the run folder")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if ip, err := netip.ParseAddr(o.ip(0)); err != nil || !ip.IsLoopback() || !strings.HasSuffix(o.addresses, ".") {
		fmt.Fprintf(stderr, "demo: -addresses %q: want the start of loopback addresses, as 127.7.0.\n", o.addresses)
		return 2
	}
	if o.registry != "" && o.registry != consul {
		fmt.Fprintf(stderr, "demo: -registry %q: want consul, or nothing\n", o.registry)
		return 2
	}
	if o.mtls && o.registry != "" {
		fmt.Fprintln(stderr, "demo: -mtls, -registry: want one of them: the services of Consul have no accounts")
		return 2
	}
	if err := run(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}

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
