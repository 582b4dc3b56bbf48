package config

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// texts returns values of headers and formats of logs.
func texts() []string {
	out := []string{
		"%PROTOCOL:5%", "%START_TIME:5%", "%REQ(A?B?C)%", "%REQ(a:b)%", "%REQ(a):99999999999%", "%REQ(a):18446744073709551616%",
		"%REQ(a):0%", "%REQ(a b)%", "%REQ(a?)%", "%REQ(?a)%", "%REQ(?)%", "%REQ(:path)%", "%REQ(:path?:authority):7%", "%REQ(a?b):7%",
		"%START_TIME(%s)%", "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%", "%START_TIME(a)b)%", "%DYNAMIC_METADATA(a:b:c)%",
		"%FILTER_STATE(a:PLAIN)%", "%FILTER_STATE(a:TYPED)%", "%FILTER_STATE(a:BOGUS)%", "%FILTER_STATE(a:FIELD:b)%", "%FILTER_STATE(a:FIELD)%",
		"%ENVIRONMENT(A B)%", "%ENVIRONMENT(A%B)%", "%", "%%", "100%%", "%%REQ(a)%", "%%REQ(a)%%", "%req(a)%", "%REQ(a)", "%REQ(a)x%",
		"%REQ(a):%", "%REQ(a):-1%", "%REQ(a)%%PROTOCOL%", "a %%% b", "%REQ()%", "%REQ%", "%PROTOCOL", "50%PROTOCOL%", "50% off",
		"%PATH(WQ)%", "%PATH(NQ:ORIG):5%", "%PATH(XX)%", "%PATH(WQ:BOGUS)%", "%QUERY_PARAM(a b)%", "%BOGUS%", "%REQ(a) %", "%REQ(é)%",
		"%REQ(:)%", "%RESPONSE_CODE_DETAILS(ALLOW_WHITESPACES)%", "%UPSTREAM_METADATA(a:b)%", "%UPSTREAM_METADATA(a:b):5%",
	}
	for name := range commands() {
		for _, form := range []string{"", ":5", "()", "(a)", "(a):5"} {
			out = append(out, "%"+name+form+"%")
		}
	}
	slices.Sort(out)
	return out
}

func patterns() []string {
	out := []string{
		`\p{Letter}`, `\p{latin}`, `\p{Assigned}`, `\pL`, `\PL`, `\p{^Greek}`, `\P{Lu}`, `[\p{Lu}a]`, `\p{Lowercase_Letter}`, `\x{FF}`, `\x{100}`,
		`[a-z\x{100}]`, `\Q\p{bogus}\E`, `\\p{bogus}`, `\377`, `(?P<a>b)`, `(?<a>b)`, `\z`, `\A`, `[[:word:]]`, `(?s).`, `(?U)a+`, `(|a)*`,
		"/a", "/v[0-9]+/.*", "/api/(users|orders|items)/[a-z0-9-]{36}/.*", ".{50}", "[^/]{20}", `\w{30}`, "(foo|bar|baz|qux){5}", "a{1000}",
		"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", `\d+(\.\d+)*`, "^/(en|de|fr)(/.*)?$", `\pL{10}`, "(?i)[a-z]{20}",
		"(?:a?){30}", "[^a]{100}", `\W{10}`, "(a{10}){10}", "é{20}", `\S+@\S+\.[a-z]{2,10}`, ".{1,100}", `[\p{L}\p{N}]{20}`,
		`[\p{L}\p{N}]{1000}`, ".{1000}.{1000}", strings.Repeat(`\w{1000}`, 9), strings.Repeat(`\pL{1000}`, 5),
	}
	for name := range unicode.Scripts {
		out = append(out, `\p{`+name+`}`)
	}
	for name := range unicode.Categories {
		out = append(out, `\p{`+name+`}`)
	}
	slices.Sort(out)
	return out
}

// The accepted values are those that the real Envoy accepts, and the computed size of a regular expression is not below
// the real one: Envoy gets each value in a separate listener.
func TestEnvoyAgrees(t *testing.T) {
	type value struct{ kind, text string }
	var values []value
	for _, text := range texts() {
		values = append(values, value{"header", text}, value{"log", text})
	}
	for _, pattern := range patterns() {
		values = append(values, value{"regex", pattern})
	}
	var listeners []any
	for i, v := range values {
		listeners = append(listeners, listenerWith(i, v.kind, v.text))
	}
	refused := refusals(t, append(listeners, listenerWith(len(values), "header", "%LAST%")))
	size := regexp.MustCompile(`program size of (\d+)`)
	for i, v := range values {
		envoy, bad := refused[i]
		if v.kind != "regex" {
			if ours := formatted(v.text); (len(ours) > 0) != bad && !stricter(v.text, bad) {
				t.Errorf("%s %s: we say %q, Envoy %q", v.kind, v.text, ours, envoy)
			}
			continue
		}
		m := size.FindStringSubmatch(envoy)
		if ours := re2Fault(v.text); (ours != "") != (bad && m == nil) {
			t.Errorf("regex %s: we say %q, Envoy %q", v.text, ours, envoy)
		} else if m != nil {
			n, _ := strconv.Atoi(m[1]) // digits, by the pattern
			if got := model.RE2Size(v.text); got < n || got > n+n/2+12 {
				t.Errorf("regex %s: the size is taken for %d, and is %d", v.text, got, n)
			}
		}
	}
}

// stricter reports whether a text is refused although Envoy accepts it, because its argument has no meaning.
func stricter(text string, bad bool) bool {
	return !bad && regexp.MustCompile(`_WITHOUT_PORT\(a\)|\(\?\)`).MatchString(text)
}

func listenerWith(i int, kind, text string) any {
	type object = map[string]any
	route := object{"match": object{"prefix": "/"}, "direct_response": object{"status": 200}}
	manager := object{
		"@type":       "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "a",
		"http_filters": []any{object{"name": "router", "typed_config": object{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
		}}},
	}
	switch kind {
	case "header":
		route["response_headers_to_add"] = []any{object{"header": object{"key": "x", "value": text}}}
	case "regex":
		route["match"] = object{"safe_regex": object{"regex": text}}
	case "log":
		manager["access_log"] = []any{object{"name": "file", "typed_config": object{
			"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/dev/null",
			"log_format": object{"text_format_source": object{"inline_string": text}},
		}}}
	}
	manager["route_config"] = object{"virtual_hosts": []any{object{"name": "a", "domains": []any{"*"}, "routes": []any{route}}}}
	return object{
		"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": fmt.Sprintf("value-%d-", i), "bind_to_port": false,
		"address":       object{"socket_address": object{"address": "127.0.0.1", "port_value": 10000 + i}},
		"filter_chains": []any{object{"filters": []any{object{"name": "http", "typed_config": manager}}}},
	}
}

// refusals returns Envoy's errors about listeners, by their place. The last listener always has an error.
func refusals(t *testing.T, listeners []any) map[int]string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lds := write("lds.json", map[string]any{"resources": listeners})
	bootstrap := write("bootstrap.json", map[string]any{
		"node": map[string]any{"id": "a", "cluster": "a"},
		"dynamic_resources": map[string]any{"lds_config": map[string]any{
			"resource_api_version": "V3", "path_config_source": map[string]any{"path": lds},
		}},
		"layered_runtime": map[string]any{"layers": []any{map[string]any{ // so that Envoy logs every size
			"name": "a", "static_layer": map[string]any{"re2.max_program_size.error_level": 1},
		}}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, envoyBinary(t), "-c", bootstrap, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	refused := map[int]string{}
	said := regexp.MustCompile(`(?:^|listener\(s\) )value-(\d+)-: (.*)`)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := said.FindStringSubmatch(lines.Text()); m != nil {
			i, _ := strconv.Atoi(m[1]) // digits, by the pattern
			refused[i] = m[2]
			if i == len(listeners)-1 {
				break
			}
		}
	}
	cancel()
	_ = cmd.Wait() // the test has ended the process
	if _, ok := refused[len(listeners)-1]; !ok {
		t.Fatal("Envoy does not say what it refuses")
	}
	return refused
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	for _, path := range []string{os.Getenv("ENVOY"), "../../bin/envoy"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("no Envoy in $ENVOY, bin/envoy or PATH: run make setup")
	}
	return path
}
