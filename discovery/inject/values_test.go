package inject_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

const podInit = "../../envoy-tools/pod-init"

// redirection are the annotations whose values pod-init gets, the flag, and the kind of the value.
var redirection = []struct{ annotation, flag, kind string }{
	{"traffic.sidecar.istio.io/includeInboundPorts", "-b", "all-ports"},
	{"traffic.sidecar.istio.io/excludeInboundPorts", "-d", "ports"},
	{"traffic.sidecar.istio.io/includeOutboundPorts", "-q", "ports"},
	{"traffic.sidecar.istio.io/excludeOutboundPorts", "-o", "ports"},
	{"traffic.sidecar.istio.io/includeOutboundIPRanges", "-i", "all-ranges"},
	{"traffic.sidecar.istio.io/excludeOutboundIPRanges", "-x", "ranges"},
	{"traffic.sidecar.istio.io/kubevirtInterfaces", "-k", "interfaces"},
	{"istio.io/reroute-virtual-interfaces", "-k", "interfaces"},
	{"traffic.sidecar.istio.io/excludeInterfaces", "-c", "interfaces"},
}

// accepts reports whether pod-init accepts variables and flags, and the rules that it would load.
func accepts(t *testing.T, variables, flags []string) (bool, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), podInit, append(flags, "-n")...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POD_INIT_BACKEND=nft", "RESOLV_CONF=/dev/null"}, variables...)
	var said bytes.Buffer
	cmd.Stderr = &said
	rules, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 64) {
		t.Fatalf("pod-init %q: %v: %s", flags, err, &said)
	}
	return err == nil, string(rules)
}

// initOf returns the arguments and the variables of pod-init in an injected Pod.
func initOf(t *testing.T, r inject.Result) (args, variables []string) {
	t.Helper()
	for _, c := range r.Pod["spec"].(map[string]any)["initContainers"].([]any) {
		c := c.(map[string]any)
		if c["name"] != "istio-init" {
			continue
		}
		for _, a := range c["args"].([]any) {
			args = append(args, a.(string))
		}
		env, _ := c["env"].([]any)
		for _, v := range env {
			v := v.(map[string]any)
			variables = append(variables, fmt.Sprint(v["name"], "=", v["value"]))
		}
	}
	if args == nil {
		t.Fatal("there is no istio-init")
	}
	return args, variables
}

func annotated(t *testing.T, i *inject.Injector, name, value string) (inject.Result, error) {
	t.Helper()
	given := parse(t, "metadata: {name: p}\nspec: {"+app+"}")
	given["metadata"].(map[string]any)["annotations"] = map[string]any{name: value}
	return i.Pod(inject.Namespace{Name: "shop"}, given, nil)
}

// Each value is accepted by the injector and by pod-init, or by neither: else the Pod would hang in Init:CrashLoopBackOff.
func TestValuesOfPodInit(t *testing.T) {
	injector := injector(t, "")
	file, err := os.Open("testdata/redirect.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pairs, injected := 0, 0
	judge := func(annotation, value string, variables, flags []string, want string, taken bool) {
		pairs++
		script, rules := accepts(t, variables, flags)
		if script != taken {
			t.Errorf("pod-init %q %q: accepted %v, want %v", variables, flags, script, taken)
		}
		r, err := annotated(t, injector, annotation, value)
		if (err == nil) != taken {
			t.Errorf("%s %q: %v, want it accepted: %v", annotation, value, err, taken)
		}
		if err != nil || !taken {
			return
		}
		injected++
		args, env := initOf(t, r)
		if ok, _ := accepts(t, env, args); !ok {
			t.Errorf("%s %q: pod-init refuses %q %q", annotation, value, env, args)
		}
		if len(flags) == 0 {
			return
		}
		if want != value {
			if _, same := accepts(t, nil, []string{flags[0], want}); same != rules {
				t.Errorf("pod-init %q makes\n%s\nand of %q\n%s", flags, rules, want, same)
			}
		}
		i := slices.Index(args, flags[0])
		switch {
		case flags[0] == "-d":
			want = strings.TrimSuffix("15020,"+want, ",")
		case i < 0 && want == "":
			return // a flag that is not needed
		}
		if i < 0 || args[i+1] != want {
			t.Errorf("%s %q: the arguments are %q, want %q", annotation, value, args, want)
		}
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(kind, "#") {
			continue
		}
		quoted, err := strconv.QuotedPrefix(strings.TrimSpace(rest))
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		value, _ := strconv.Unquote(quoted)
		want, unquotable := strconv.Unquote(strings.TrimSpace(strings.TrimSpace(rest)[len(quoted):]))
		star := strings.TrimSpace(value) == "*"
		found := false
		for _, r := range redirection {
			if r.kind == kind || r.kind == "all-"+kind && !star {
				found = true
				judge(r.annotation, value, nil, []string{r.flag, value}, want, unquotable == nil)
			}
		}
		if !found {
			config := fmt.Sprintf("proxyMetadata: {%s: %q}", kind, value)
			judge("proxy.istio.io/config", config, []string{kind + "=" + value}, nil, want, unquotable == nil)
		}
	}
	if pairs < 300 || injected < 100 {
		t.Errorf("%d pairs were tried, %d injected", pairs, injected)
	}
}

// Of values that are made at random both say the same, or the injector has brought the value into a form that pod-init accepts.
func TestRandomValuesOfPodInit(t *testing.T) {
	const seed, each = 17, 400
	injector := injector(t, "")
	random := rand.New(rand.NewPCG(seed, seed))
	parts := map[string][]string{
		"ports":      {"80", "443", "65535", "65536", "1", "0", "-", ",", ",", " ", "\t", "*", "x", "8000-8010", "00", "+"},
		"ranges":     {"10", ".", ".", "0", "255", "256", "/", "8", "32", "33", "128", ":", ":", "::", "fd00", "12345", "10.0.0.0/8", "fd00::/8", ",", " ", "*", "%", "1.2.3.4"},
		"interfaces": {"eth0", "-", "@", ".", "_", "+", "/", " ", ",", "a-long-name", "*"},
	}
	var kinds, values []string
	for _, kind := range []string{"ports", "ranges", "interfaces"} {
		for range each {
			value := ""
			for range 1 + random.IntN(7) {
				value += parts[kind][random.IntN(len(parts[kind]))]
			}
			kinds, values = append(kinds, kind), append(values, value)
		}
	}
	// One shell judges all of them by the functions of pod-init: a process for each would take minutes.
	const judge = `
set -uf
. "$1/validate.sh"
wrong() { exit 64; }
while IFS='|' read -r kind value; do
	if (case $kind in
		ports) each -d value ports x ;;
		ranges) each -x value cidr x ;;
		interfaces) each -c value interface x ;;
	esac); then echo yes; else echo no; fi
done`
	var input strings.Builder
	for i, value := range values {
		input.WriteString(kinds[i] + "|" + value + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", judge, "sh", podInit+".d")
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	verdicts := strings.Fields(string(out))
	if len(verdicts) != len(values) {
		t.Fatalf("%d verdicts of %d", len(verdicts), len(values))
	}
	annotations := map[string]string{
		"ports": "traffic.sidecar.istio.io/excludeInboundPorts", "ranges": "traffic.sidecar.istio.io/excludeOutboundIPRanges",
		"interfaces": "traffic.sidecar.istio.io/excludeInterfaces",
	}
	taken := map[string]int{}
	for i, value := range values {
		_, err := annotated(t, injector, annotations[kinds[i]], value)
		if (err == nil) != (verdicts[i] == "yes") {
			t.Errorf("seed %d: %s %q: pod-init says %s, the injector %v", seed, kinds[i], value, verdicts[i], err)
		}
		if err == nil {
			taken[kinds[i]]++
		}
	}
	for kind := range parts {
		if taken[kind] < 20 || taken[kind] > each-20 {
			t.Errorf("%s: %d of %d are accepted", kind, taken[kind], each)
		}
	}
}
