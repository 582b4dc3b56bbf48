package inject_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

func namesOf(p map[string]any, key string) (out []string) {
	list, _ := p["spec"].(map[string]any)[key].([]any)
	for _, c := range list {
		out = append(out, c.(map[string]any)["name"].(string))
	}
	return out
}

func containerOf(t *testing.T, p map[string]any, name string) map[string]any {
	t.Helper()
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := p["spec"].(map[string]any)[key].([]any)
		for _, c := range list {
			if c := c.(map[string]any); c["name"] == name {
				return c
			}
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

func probersOf(t *testing.T, p map[string]any) string {
	t.Helper()
	env, _ := containerOf(t, p, "istio-proxy")["env"].([]any)
	for _, v := range env {
		if v := v.(map[string]any); v["name"] == "ISTIO_KUBE_APP_PROBERS" {
			return v["value"].(string)
		}
	}
	return ""
}

// The API server asks again after a later webhook has added containers: their probes are led to the agent as well, with those
// that it knows already, and the sidecar keeps its place.
func TestContainersOfALaterWebhook(t *testing.T) {
	for _, native := range []bool{true, false} {
		for _, tt := range []struct{ name, metadata, probe, knows string }{
			{"with a probe before", "", "livenessProbe: {tcpSocket: {port: 1}}", `{"/app-health/app/livez":{"tcpSocket":{"port":1}},"/app-health/late/readyz":{"httpGet":{"path":"/a\u0024(B)","port":80}}}`},
			{"without one", "", "image: a", `{"/app-health/late/readyz":{"httpGet":{"path":"/a\u0024(B)","port":80}}}`},
			{"without rewriting", "annotations: {sidecar.istio.io/rewriteAppHTTPProbers: 'False'}", "livenessProbe: {tcpSocket: {port: 1}}", ""},
		} {
			t.Run(fmt.Sprint(tt.name, " ", native), func(t *testing.T) {
				i := injector(t, fmt.Sprintf("holdApplicationUntilProxyStarts: %v", !native))
				metadata := tt.metadata
				if !native {
					metadata = strings.TrimSuffix(metadata+"x", "}x") // of the annotations there are, or none
					metadata = map[bool]string{true: metadata + ", ", false: "annotations: {"}[tt.metadata != ""] + "sidecar.istio.io/nativeSidecar: 'false'}"
				}
				ns := inject.Namespace{Name: "shop", Selected: true}
				first, err := i.Pod(ns, parse(t, "metadata: {name: p, "+metadata+"}\nspec: {initContainers: [{name: prepare}], containers: [{name: app, "+tt.probe+"}]}"), nil)
				if err != nil {
					t.Fatal(err)
				}
				was := map[string][]string{"containers": namesOf(first.Pod, "containers"), "initContainers": namesOf(first.Pod, "initContainers")}
				spec := first.Pod["spec"].(map[string]any)
				late := parse(t, "{name: late, readinessProbe: {periodSeconds: 7, httpGet: {path: /a$(B), port: 80}}}")
				spec["containers"] = append([]any{late}, spec["containers"].([]any)...)
				spec["initContainers"] = append(append([]any{map[string]any{"name": "early"}}, spec["initContainers"].([]any)...), map[string]any{"name": "after"})
				again, err := i.Pod(ns, first.Pod, nil)
				if err != nil || again.Skipped != "" {
					t.Fatalf("%q, %v", again.Skipped, err)
				}
				if got := probersOf(t, again.Pod); got != tt.knows && tt.knows != "" || tt.knows == "" && got != "" {
					t.Errorf("the agent knows %s, want %s", got, tt.knows)
				}
				led := fmt.Sprint(containerOf(t, again.Pod, "late")["readinessProbe"])
				if want := "map[httpGet:map[path:/app-health/late/readyz port:15020] periodSeconds:7]"; (led == want) != (tt.knows != "") {
					t.Errorf("the probe of the later container is %s", led)
				}
				containers, initial := namesOf(again.Pod, "containers"), namesOf(again.Pod, "initContainers")
				if native {
					if !slices.Equal(initial, []string{"istio-init", "istio-proxy", "early", "prepare", "after"}) || !slices.Equal(containers, []string{"late", "app"}) {
						t.Errorf("the order is %q, %q; it was %q", initial, containers, was)
					}
				} else if !slices.Equal(initial, []string{"early", "prepare", "after", "istio-init"}) || !slices.Equal(containers, []string{"istio-proxy", "late", "app"}) {
					t.Errorf("the order is %q, %q; it was %q", initial, containers, was)
				}
				third, err := i.Pod(ns, again.Pod, nil)
				if err != nil || third.Skipped == "" || !reflect.DeepEqual(third.Pod, again.Pod) {
					t.Errorf("the third time: %q, %v", third.Skipped, err)
				}
			})
		}
	}
}

// What another injector has made, and what has not changed, stays as it is.
func TestAgainWithoutAChange(t *testing.T) {
	i := injector(t, "")
	for _, text := range []string{
		`metadata: {annotations: {sidecar.istio.io/status: "{}"}}` + "\n" + `spec: {containers: [{name: app, livenessProbe: {httpGet: {port: 80}}}, {name: istio-proxy, args: [proxy, sidecar]}]}`,
		`metadata: {annotations: {sidecar.istio.io/status: "{}"}}` + "\n" + `spec: {containers: [{name: app, livenessProbe: {httpGet: {port: 80}}}, {name: istio-proxy, args: [proxy, --statusPort]}]}`,
		`metadata: {annotations: {sidecar.istio.io/status: "{}"}}` + "\n" + `spec: {containers: [{name: app, livenessProbe: {httpGet: {port: 80, host: a}}}, {name: istio-proxy, args: [proxy, --statusPort, "15020"]}]}`,
	} {
		given := parse(t, text)
		r, err := i.Pod(inject.Namespace{Name: "shop", Selected: true}, given, nil)
		if err != nil || r.Skipped == "" || !reflect.DeepEqual(r.Pod, given) || len(r.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	for _, value := range []string{"{", "null", "[]", ""} {
		broken(t, i, value)
	}
}

func broken(t *testing.T, i *inject.Injector, value string) {
	t.Helper()
	text := `metadata: {annotations: {sidecar.istio.io/status: "{}"}}` + "\n" + `spec: {containers: [{name: app, livenessProbe: {httpGet: {port: 80}}}, {name: istio-proxy, args: [--statusPort, "15020"], env: [{name: ISTIO_KUBE_APP_PROBERS, value: "` + value + `"}]}]}`
	if _, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, text), nil); err == nil || !strings.Contains(err.Error(), "ISTIO_KUBE_APP_PROBERS is no JSON object") {
		t.Errorf("with the variable %q: %v", value, err)
	}
}
