package agent

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Each role gets the bootstrap of its own, and discovery's configuration for it: requests pass.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.Backend("app")
	w.Service("app.test", app)
	for _, role := range []string{"ingress", "router"} {
		t.Run(role, func(t *testing.T) {
			bind := w.Address()
			w.Apply("Gateway "+role, fmt.Sprintf("selector: {app: %s}\nservers: [{port: {number: 18080, name: http, protocol: HTTP}, bind: %s, hosts: [\"*\"]}]", role, bind),
				"VirtualService "+role, fmt.Sprintf("hosts: [%s.test]\ngateways: [%[1]s]\nhttp: [{route: [{destination: {host: app.test}}]}]", role))
			s := w.agent(lab.Workload{Role: role, Name: role, App: role, IP: w.Address(), Flags: []string{"--availabilityZone", "r/z/s"}})
			w.Await(lab.ClientTo(bind+":18080", nil), "http://"+role+".test/", lab.From("app"))
			dump, err := lab.Get("http://" + s.Admin + "/config_dump?mask=bootstrap.node")
			w.Check(err)
			for _, want := range []string{`"id": "` + role + "~", `"sub_zone": "s"`} {
				if !strings.Contains(dump, want) {
					t.Errorf("Envoy's node has no %s:\n%s", want, dump)
				}
			}
		})
	}
	t.Run("sidecar", func(t *testing.T) {
		port, err := lab.FreePort()
		w.Check(err)
		w.agent(lab.Workload{Name: "sidecar", App: "client", IP: w.Address(), ProxyPort: port, Flags: []string{"--xdsVariant", "sotw"}})
		w.Await(lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", port), nil), "http://app.test/", lab.From("app"))
	})
}

// agent starts an agent that asks the world's discovery, and waits until its Envoy serves.
func (w *world) agent(of lab.Workload) *lab.Sidecar {
	w.T.Helper()
	s := w.start(of)
	w.Check(s.AwaitReady())
	return s
}

// start does not wait.
func (w *world) start(of lab.Workload) *lab.Sidecar {
	w.T.Helper()
	of.Discovery = cmp.Or(of.Discovery, w.Discovery.GRPC)
	status, err := lab.FreePort()
	w.Check(err)
	of.Flags = append([]string{"--statusPort", fmt.Sprint(status)}, of.Flags...)
	s, err := w.Sidecar(of)
	w.Check(err)
	w.T.Cleanup(func() {
		if code := s.Stop(lab.StopLimit); code != 0 {
			w.T.Errorf("the agent's exit status is %d, want 0:\n%s", code, s.Log())
		}
	})
	return s
}

// The agent speaks mutual TLS with discovery when it is told to, with the certificates of its own directory; proves that
// new ones are taken; and names what it waits for when discovery is another than the configured one.
func TestMutualTLSWithDiscovery(t *testing.T) {
	t.Parallel()
	for _, lastGood := range []string{"off", "on"} {
		t.Run(lastGood, func(t *testing.T) { mutualTLSWithDiscovery(t, lastGood) })
	}
}

func mutualTLSWithDiscovery(t *testing.T, lastGood string) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	authority, later := w.authorityOf("mesh"), time.Now().Add(time.Hour)
	address := w.secure(w.identity(authority, pilot, 1, later), authority.PEM())
	certs := filepath.Join(t.TempDir(), "certs")
	w.Check(w.identity(authority, workload, 1001, later).Mount(certs))
	flags := []string{"--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", certs, "--lastGood", lastGood}

	port := lab.Port(w.T)
	s := w.agent(lab.Workload{
		Name: "client", App: "client", IP: w.Address(), ProxyPort: port, Discovery: address,
		Flags: append(flags, "--pilotIdentity", pilot),
	})
	w.Await(lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", port), nil), "http://app.test/", lab.From("app"))
	w.Check(w.identity(authority, workload, 1002, later).Mount(certs))
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(s.Log(), `msg="certificate rotated" serial=03ea`) {
			return fmt.Errorf("the rotation is not proven:\n%s", s.Log())
		}
		return nil
	}))

	for name, test := range map[string]struct {
		flags []string
		want  []string // pieces of it
	}{
		"refuses": {
			append(slices.Clone(flags), "--pilotIdentity", pilot+"-other"),
			[]string{"discovery at " + address + " shows a certificate of " + pilot, ", want " + pilot + "-other: set --pilotIdentity"},
		},
		"plain": {[]string{"--lastGood", lastGood}, []string{"discovery at " + address + " speaks TLS and is asked in plain text: set --controlPlaneAuthPolicy MUTUAL_TLS"}},
	} {
		status := lab.Port(w.T)
		s := w.start(lab.Workload{
			Name: name, App: "client", IP: w.Address(), Discovery: address, Flags: append(test.flags, "--statusPort", fmt.Sprint(status)),
		})
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			_, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", status))
			if err == nil || !strings.Contains(err.Error(), "CDSReceived: not yet: "+test.want[0]) {
				return fmt.Errorf("/healthz/ready: %v, want %s", err, test.want)
			}
			return nil
		}))
		for _, want := range test.want {
			w.Check(s.AwaitLog(want))
			if n := strings.Count(s.Log(), want); n != 1 {
				t.Errorf("the log says %q %d times, want once", want, n)
			}
		}
	}
}

// A template of the user's own is rendered, with an override over it; a change of either is a handover.
func TestTemplateAndOverride(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"flags", "environment"} {
		t.Run(way, func(t *testing.T) {
			s := newStandalone(t)
			override := filepath.Join(t.TempDir(), "override.yaml")
			template := s.config
			write := func(text string) { // the agent must not read it half-written
				s.must(os.WriteFile(override+"~", []byte(text), 0o600))
				s.must(os.Rename(override+"~", override))
			}
			s.mutate = func(bootstrap string) string {
				return strings.Replace(bootstrap, `"cluster": "standalone"}`, `"cluster": {{.Cluster}}}`, 1)
			}
			s.configure(1)
			write("layered_runtime:\n  layers:\n  - name: over\n    static_layer: {a.b: 1}\n")
			flags := []string{"--customConfigFile", "", "--serviceCluster", "of-the-flag"}
			if way == "flags" {
				s.launch(append(flags, "--templateFile", template, "--bootstrapOverride", override)...)
			} else {
				s.env = []string{"ISTIO_BOOTSTRAP=" + template, "ISTIO_BOOTSTRAP_OVERRIDE=" + override}
				s.launch(append(flags, "--templateFile", "/nowhere")...)
			}
			s.must(s.awaitRevision(1, lab.StopLimit))
			s.must(s.awaitAlone(lab.StopLimit))
			s.shows(`"cluster": "of-the-flag"`, `"a.b": 1`)

			s.configure(2)
			s.must(s.awaitRevision(2, lab.StopLimit))
			s.must(s.awaitAlone(lab.StopLimit))
			write("layered_runtime:\n  layers:\n  - name: over\n    static_layer: {a.b: 7}\n")
			s.must(s.awaitStatus(lab.StopLimit, "epoch 2 that serves", func(a agentStatus) bool {
				return len(a.Epochs) == 1 && a.Epochs[0].Epoch == 2 && a.Epochs[0].State == "serving"
			}))
			s.shows(`"a.b": 7`)

			// A template that cannot be read or rendered changes nothing.
			write("- a list\n")
			s.must(s.AwaitLog("the running Envoy keeps its own"))
			s.must(s.awaitRevision(2, lab.StopLimit))
		})
	}
}

// shows looks into the bootstrap that Envoy runs.
func (s *standalone) shows(words ...string) {
	s.t.Helper()
	dump, err := lab.Get("http://" + s.Admin + "/config_dump?mask=bootstrap")
	s.must(err)
	for _, want := range words {
		if !strings.Contains(dump, want) {
			s.t.Errorf("Envoy's bootstrap has no %s:\n%s", want, dump)
		}
	}
}

// The bootstrap can be printed, judged by the real Envoy, and compared with what runs, before anything is changed.
func TestBootstrapCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ip := w.Address()
	s := w.agent(lab.Workload{Name: "shop", App: "shop", IP: ip})
	command := func(arguments ...string) (string, error) {
		c := exec.Command(lab.Program("agent"), append([]string{
			"bootstrap", "sidecar", "--ip", ip, "--id", "shop.default", "--domain", "default.svc.cluster.local",
			"--serviceregistry", "Other", "--serviceCluster", "shop", "--discoveryAddress", w.Discovery.GRPC,
			"--binaryPath", lab.Envoy(), "--configPath", s.ConfigPath,
		}, arguments...)...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := command("--validate", "--controlPlaneAuthPolicy", "MUTUAL_TLS", "--zipkinAddress", "127.0.0.1:1"); err != nil || !strings.Contains(out, "Envoy takes it") {
		t.Errorf("--validate: %v, %s", err, out)
	}
	override := filepath.Join(t.TempDir(), "override.json")
	w.Check(os.WriteFile(override, []byte(`{"static_resources": {"clusters": [{"name": "bad", "connect_timeout": "-1s"}]}}`), 0o600))
	if out, err := command("--validate", "--bootstrapOverride", override); err == nil || !strings.Contains(out, "Expected positive duration") {
		t.Errorf("--validate of a bad override: %v, %s", err, out)
	}
	out, err := command("--diff", "--availabilityZone", "r/z")
	if err == nil || !strings.Contains(out, `+ node.locality: {"region":"r",`) {
		t.Errorf("--diff: %v, %s", err, out)
	}
}
