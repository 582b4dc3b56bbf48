package inject_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

// A Pod's own container istio-proxy changes the sidecar; values that the API server has written into it for an image without
// a tag are not its wishes, and its user and group are those that pod-init leaves alone.
func TestOwnSidecar(t *testing.T) {
	for _, tt := range []struct {
		config, own string
		want        map[string]string // fields of the sidecar
		user, group string
	}{
		{"imagePullPolicy: IfNotPresent", "imagePullPolicy: Always", map[string]string{"imagePullPolicy": "IfNotPresent"}, "1337", "1337"},
		{"", "imagePullPolicy: Always", map[string]string{"imagePullPolicy": "<nil>"}, "1337", "1337"},
		{"imagePullPolicy: Always", "imagePullPolicy: Never", map[string]string{"imagePullPolicy": "Never"}, "1337", "1337"},
		{"", "terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File", map[string]string{"terminationMessagePath": "<nil>", "terminationMessagePolicy": "<nil>"}, "1337", "1337"},
		{"", "terminationMessagePolicy: FallbackToLogsOnError", map[string]string{"terminationMessagePolicy": "FallbackToLogsOnError"}, "1337", "1337"},
		{"", "securityContext: {runAsUser: 2000}", map[string]string{}, "2000", "1337"},
		{"", "securityContext: {runAsUser: 2000, runAsGroup: 3000}", map[string]string{}, "2000", "3000"},
		{"", "securityContext: {runAsGroup: 0}", map[string]string{}, "1337", "0"},
		{"interceptionMode: TPROXY", "securityContext: {runAsGroup: 3000}", map[string]string{}, "1337", "3000"},
	} {
		given := parse(t, "metadata: {name: p}\nspec: {containers: [{name: app, image: a}, {name: istio-proxy, image: auto, "+tt.own+"}]}")
		r, err := injector(t, tt.config+"\nimage: example/proxy:1").Pod(inject.Namespace{Name: "shop"}, given, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.own, err)
			continue
		}
		sidecar := containerOf(t, r.Pod, "istio-proxy")
		if sidecar["image"] != "example/proxy:1" {
			t.Errorf("%s: the image is %v", tt.own, sidecar["image"])
		}
		for key, want := range tt.want {
			if got := fmt.Sprint(sidecar[key]); got != want {
				t.Errorf("%s, %s: %s is %s, want %s", tt.config, tt.own, key, got, want)
			}
		}
		args, _ := initOf(t, r)
		if text := strings.Join(args, " "); !strings.Contains(text, "-u "+tt.user+" -g "+tt.group+" ") {
			t.Errorf("%s: pod-init gets %s, want -u %s -g %s", tt.own, text, tt.user, tt.group)
		}
		if ok, _ := accepts(t, nil, args); !ok {
			t.Errorf("%s: pod-init refuses %q", tt.own, args)
		}
	}
	for _, wrong := range []string{"runAsUser: -1", "runAsGroup: x", "runAsUser: 2147483648"} {
		given := parse(t, "spec: {containers: [{name: app, image: a}, {name: istio-proxy, image: auto, securityContext: {"+wrong+"}}]}")
		if _, err := injector(t, "").Pod(inject.Namespace{Name: "shop"}, given, nil); err == nil || !strings.Contains(err.Error(), "securityContext."+wrong[:9]) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// Istio's form for native sidecars, an init container, changes the sidecar as well, whichever kind that becomes.
func TestOwnNativeSidecar(t *testing.T) {
	for _, native := range []bool{true, false} {
		for _, others := range []string{"", ", {name: setup, image: b}"} {
			given := parse(t, fmt.Sprintf("metadata: {annotations: {sidecar.istio.io/nativeSidecar: '%v'}}\n"+
				"spec: {containers: [{name: app, image: a}], initContainers: [{name: istio-proxy, image: auto, restartPolicy: Always, env: [{name: A, value: b}], "+
				"securityContext: {runAsUser: 2000}}%s]}", native, others))
			r, err := injector(t, "image: example/proxy:1").Pod(inject.Namespace{Name: "shop"}, given, nil)
			if err != nil {
				t.Fatal(err)
			}
			sidecar := containerOf(t, r.Pod, "istio-proxy")
			spec := r.Pod["spec"].(map[string]any)
			text := fmt.Sprint(sidecar["env"])
			if sidecar["image"] != "example/proxy:1" || !strings.Contains(text, "map[name:A value:b]") || (sidecar["restartPolicy"] == "Always") != native {
				t.Errorf("native %v: the sidecar is %v", native, sidecar)
			}
			if n := len(spec["containers"].([]any)); (n == 1) != native {
				t.Errorf("native %v: there are %d containers", native, n)
			}
			if args, _ := initOf(t, r); !slices.Contains(args, "2000") {
				t.Errorf("native %v: pod-init gets %v", native, args)
			}
		}
	}
	given := parse(t, "spec: {containers: [{name: app, image: a}, {name: istio-proxy, image: auto}], initContainers: [{name: istio-proxy, image: auto}]}")
	if _, err := injector(t, "").Pod(inject.Namespace{Name: "shop"}, given, nil); err == nil {
		t.Error("two containers istio-proxy are accepted")
	}
}

// A program of the sidecar's user is named, whichever user that is.
func TestProgramOfTheSidecarsUser(t *testing.T) {
	given := parse(t, "spec: {containers: [{name: app, securityContext: {runAsUser: 2000}}, {name: istio-proxy, image: auto, securityContext: {runAsUser: 2000}}]}")
	r, err := injector(t, "").Pod(inject.Namespace{Name: "shop"}, given, nil)
	if err != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "container app: runs as 2000 or 1337") }) {
		t.Errorf("the warnings are %q, %v", r.Warnings, err)
	}
}

// status.sidecar.istio.io/port: "0" leaves out the probes of the sidecar, as in Istio; the agent keeps its usual port.
func TestStatusPortZero(t *testing.T) {
	for _, native := range []bool{true, false} {
		given := parse(t, fmt.Sprintf("metadata: {annotations: {status.sidecar.istio.io/port: '0', sidecar.istio.io/nativeSidecar: '%v'}}\nspec: {containers: [{name: app, livenessProbe: {tcpSocket: {port: 1}}}]}", native))
		r, err := injector(t, "holdApplicationUntilProxyStarts: true").Pod(inject.Namespace{Name: "shop"}, given, nil)
		if err != nil {
			t.Fatal(err)
		}
		sidecar := containerOf(t, r.Pod, "istio-proxy")
		if sidecar["readinessProbe"] != nil || sidecar["startupProbe"] != nil {
			t.Errorf("the sidecar is %v", sidecar)
		}
		if text := fmt.Sprint(sidecar["args"]); !strings.Contains(text, "--statusPort 15020") {
			t.Errorf("the arguments are %s", text)
		}
		if text := fmt.Sprint(containerOf(t, r.Pod, "app")); !strings.Contains(text, "port:15020") {
			t.Errorf("the program is %s", text)
		}
	}
}

// A native sidecar drains when its Pod begins to end, with and without holdApplicationUntilProxyStarts; another one drains at its own end.
func TestSidecarHooks(t *testing.T) {
	const (
		drains = "preStop:map[exec:map[command:[/usr/local/bin/agent drain --statusPort 15099]]]"
		waits  = "postStart:map[exec:map[command:[/usr/local/bin/agent wait --timeout 60s --statusPort 15099]]]"
	)
	for _, tt := range []struct {
		native, hold bool
		own, want    string
	}{
		{true, false, "", "map[" + drains + "]"},
		{true, true, "", "map[" + drains + "]"},
		{false, true, "", "map[" + waits + "]"},
		{false, false, "", "<nil>"},
		{true, false, ", lifecycle: {preStop: {sleep: {seconds: 1}}}", "map[preStop:map[sleep:map[seconds:1]]]"},
		{true, false, ", lifecycle: {postStart: {sleep: {seconds: 1}}}", "map[postStart:map[sleep:map[seconds:1]] " + drains + "]"},
	} {
		given := parse(t, fmt.Sprintf("metadata: {annotations: {status.sidecar.istio.io/port: '15099', sidecar.istio.io/nativeSidecar: '%v'}}\n"+
			"spec: {containers: [{name: app}, {name: istio-proxy, image: auto%s}]}", tt.native, tt.own))
		r, err := injector(t, fmt.Sprintf("holdApplicationUntilProxyStarts: %v", tt.hold)).Pod(inject.Namespace{Name: "shop"}, given, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(containerOf(t, r.Pod, "istio-proxy")["lifecycle"]); got != tt.want {
			t.Errorf("native %v, hold %v%s: lifecycle is %s, want %s", tt.native, tt.hold, tt.own, got, tt.want)
		}
	}
}

// kubectl logs and exec mean the program's first container, wherever the sidecar is, unless the Pod says otherwise.
func TestDefaultContainer(t *testing.T) {
	const name = "kubectl.kubernetes.io/default-container"
	for _, tt := range []struct{ metadata, want string }{
		{"sidecar.istio.io/nativeSidecar: 'false'", "a"}, {"sidecar.istio.io/nativeSidecar: 'false', " + name + ": b", "b"}, {"a: b", "a"},
	} {
		given := parse(t, "metadata: {annotations: {"+tt.metadata+"}}\nspec: {containers: [{name: istio-proxy, image: auto}, {name: a}, {name: b}]}")
		r, err := injector(t, "holdApplicationUntilProxyStarts: true").Pod(inject.Namespace{Name: "shop"}, given, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Pod["metadata"].(map[string]any)["annotations"].(map[string]any)[name]; got != tt.want {
			t.Errorf("%s: it is %v, want %s", tt.metadata, got, tt.want)
		}
	}
}
