package inject

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// inVariable writes JSON for an environment variable, in which Kubernetes would replace $(NAME) and $$.
func inVariable(v any) string {
	text, _ := json.Marshal(v) // of maps, lists and texts
	return strings.ReplaceAll(string(text), "$", `\u0024`)
}

const longestProbe = 300 // seconds, of the agent

var (
	probeEnds = map[string]string{"livenessProbe": "livez", "readinessProbe": "readyz", "startupProbe": "startupz"}
	hookEnds  = map[string]string{"preStop": "prestopz", "postStart": "poststartz"}
)

// rewriteProbes directs the probes and hooks of a Pod to the agent, and returns the original probes for the agent, by
// path.
func (w *annotations) rewriteProbes(p pod, native bool) map[string]any {
	asked := map[string]any{}
	for _, c := range p.containers() {
		if c["name"] != proxyName {
			w.rewriteContainerProbes(c, asked)
		}
	}
	for _, c := range p.initContainers() {
		if c["restartPolicy"] != "Always" || c["name"] == proxyName {
			continue // other init containers have no probes
		}
		if native {
			w.rewriteContainerProbes(c, asked)
		} else if c["startupProbe"] != nil || c["readinessProbe"] != nil || c["livenessProbe"] != nil {
			w.warn("container %s: its probes are not led to the agent, which starts after it: use a native sidecar", c["name"])
		}
	}
	return asked
}

func (w *annotations) rewriteContainerProbes(c map[string]any, asked map[string]any) {
	name, _ := c["name"].(string)
	lead := func(holder map[string]any, key, path string) {
		probe, _ := holder[key].(map[string]any)
		if probe == nil {
			return
		}
		question, err := w.agentProbe(c, probe)
		if err != nil {
			w.warn("container %s: %s is not led to the agent, and may fail: %v", name, key, err)
		}
		if question == nil {
			return
		}
		asked[path] = question
		changed := clone(probe).(map[string]any)
		for _, way := range []string{"httpGet", "tcpSocket", "grpc"} {
			delete(changed, way)
		}
		changed["httpGet"] = map[string]any{"path": path, "port": int64(w.statusPort)}
		holder[key] = changed
	}
	for key, end := range probeEnds {
		lead(c, key, "/app-health/"+name+"/"+end)
	}
	if hooks, _ := c["lifecycle"].(map[string]any); hooks != nil {
		for key, end := range hookEnds {
			lead(hooks, key, "/app-lifecycle/"+name+"/"+end)
		}
	}
}

// agentProbe returns the probe that the agent makes instead; nil for a probe that does not connect to a port.
func (w *annotations) agentProbe(c, probe map[string]any) (map[string]any, error) {
	for _, way := range []string{"httpGet", "tcpSocket", "grpc"} {
		asked, _ := probe[way].(map[string]any)
		if asked == nil {
			continue
		}
		asked = clone(asked).(map[string]any)
		if host, _ := asked["host"].(string); host != "" {
			return nil, fmt.Errorf("it asks the host %.60s", host)
		}
		port, err := portOf(c, asked["port"])
		if err != nil {
			return nil, err
		}
		if asked["port"] = port; port == int64(w.statusPort) {
			return nil, nil // it goes to the agent already
		}
		if way == "httpGet" {
			if err := checkHTTPGet(asked); err != nil {
				return nil, err
			}
		}
		out := map[string]any{way: asked}
		if seconds, said := numberOf(probe["timeoutSeconds"]); said {
			if seconds < 0 || seconds > longestProbe {
				return nil, fmt.Errorf("timeoutSeconds is %d, the agent waits %d at most", seconds, longestProbe)
			}
			out["timeoutSeconds"] = seconds
		}
		return out, nil
	}
	return nil, nil
}

// checkHTTPGet returns an error for an HTTP probe that the agent would refuse.
func checkHTTPGet(asked map[string]any) error {
	if scheme, _ := asked["scheme"].(string); scheme != "" && scheme != "HTTP" && scheme != "HTTPS" {
		return fmt.Errorf("its scheme is %.20q", scheme)
	}
	path, _ := asked["path"].(string)
	if target, err := url.Parse(path); err != nil || target.Scheme+target.Host+target.Opaque != "" {
		return fmt.Errorf("its path is %.60q", path)
	}
	for _, h := range objects(asked["httpHeaders"]) {
		name, _ := h["name"].(string)
		value, _ := h["value"].(string)
		noToken := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }
		if name == "" || strings.ContainsFunc(name, noToken) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("its header %.60q is none of HTTP", name)
		}
	}
	return nil
}

// portOf resolves a port's name.
func portOf(c map[string]any, port any) (int64, error) {
	if n, ok := numberOf(port); ok {
		if isPort(strconv.FormatInt(n, 10)) != nil {
			return 0, fmt.Errorf("its port is %d", n)
		}
		return n, nil
	}
	name, _ := port.(string)
	ports := objects(c["ports"])
	i := slices.IndexFunc(ports, func(o map[string]any) bool { return name != "" && o["name"] == name })
	if i < 0 {
		if n, err := strconv.ParseInt(name, 10, 32); err == nil && isPort(name) == nil {
			return n, nil
		}
		return 0, fmt.Errorf("the container has no port %.60q", name)
	}
	n, _ := numberOf(ports[i]["containerPort"])
	if isPort(strconv.FormatInt(n, 10)) != nil {
		return 0, fmt.Errorf("its port %s is %d", name, n)
	}
	return n, nil
}

func numberOf(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case float64:
		return int64(n), n == float64(int64(n))
	}
	return 0, false
}

// metricsOf directs the annotations of Prometheus to the agent, and returns the original target for the agent to
// scrape; "" for none.
func (w *annotations) metricsOf(annotations map[string]any) (scrape string) {
	const start = "prometheus.io/"
	given := texts(annotations)
	if !w.metrics || given[start+"scrape"] == "false" {
		return ""
	}
	own := strconv.Itoa(w.statusPort)
	if given[start+"scrape"] == "true" {
		path, port := given[start+"path"], given[start+"port"]
		switch {
		case given[start+"scheme"] != "" && given[start+"scheme"] != "http":
			w.warn("annotation %sscheme: is %.20q, so the metrics of the program are not merged", start, given[start+"scheme"])
			return ""
		case port != "" && isPort(port) != nil || path != "" && !strings.HasPrefix(path, "/"):
			w.warn("annotations %s*: the port %.20q or the path %.60q is none, so the metrics of the program are not merged", start, port, path)
			return ""
		case port == own:
			return ""
		}
		document := map[string]any{"scrape": "true"}
		if path != "" {
			document["path"] = path
		}
		if port != "" {
			document["port"] = port
		}
		scrape = inVariable(document)
	}
	annotations[start+"scrape"], annotations[start+"port"], annotations[start+"path"] = "true", own, "/stats/prometheus"
	return scrape
}
