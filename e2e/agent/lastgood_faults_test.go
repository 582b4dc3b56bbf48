package agent

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A discovery that accepts connections and says nothing is away: a new Envoy serves after two seconds. When it speaks
// again, its changes are in force.
func TestLastGoodBesideAMuteDiscovery(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	two := o.Backend("two")
	o.Discovery.Signal(syscall.SIGSTOP)
	defer o.Discovery.Signal(syscall.SIGCONT)
	t.Logf("killed, and serving again after %v", o.crash())
	o.says("/healthz/ready?verbose", "discovery is away (discovery has not answered for")
	o.Service("reviews.test", two)
	o.Discovery.Signal(syscall.SIGCONT)
	t.Logf("discovery speaks, and its change in force after %v", o.answers("two"))
}

// A handover while discovery is away loses no request: the newcomer gets what its parent has.
func TestHandoverWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	certs, ca := filepath.Join(t.TempDir(), "certs"), w.authorityOf("root")
	mount := func(serial int64) {
		t.Helper()
		identity, err := ca.Issue("client", serial)
		w.Check(err)
		w.Check(identity.Mount(certs))
	}
	mount(1001)
	o := startOutage(t, w, "--certDir", certs, "--certRotation", "restart")
	before, err := o.agent.Envoy()
	w.Check(err)
	o.leave()
	load := lab.StartLoad(o.http, "http://reviews.test/", 2, 2)
	mount(1002)
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		now, err := o.agent.Envoy() // an error while there are two
		if err == nil && now == before {
			err = fmt.Errorf("process %d still serves", now)
		}
		return err
	}))
	lab.Unharmed(t, load)
	o.says("/healthz/ready?verbose", "serves the configuration of 20")
}

// An agent that starts again in its directory while discovery is away serves too, also one that was killed.
func TestAnAgentThatStartsWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	o.leave()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		envoy, err := o.agent.Envoy()
		o.Check(err)
		o.agent.Signal(signal)
		_, err = o.agent.Wait(lab.StopLimit)
		o.Check(err)
		o.Check(gone(lab.StopLimit, envoy))
		o.start()
		o.says("/healthz/ready?verbose", "serves the configuration of 20")
	}
}

// Where endpoints change all the time, the configuration is remembered all the same, and it is not an old one.
func TestLastGoodInABusyMesh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newOutage(t, w)
	backends, changes := []*lab.Backend{w.Backend("red"), w.Backend("blue")}, 0
	change := func() {
		w.Service("busy.test", backends[changes%2])
		changes++
	}
	change()
	o.start()
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		change()
		_, err := o.agent.LastGood()
		return err
	}))
	o.says("/metrics", "pilotlight_agent_last_good_recorded_timestamp_seconds 1")
	o.leave()
	t.Logf("remembered after %d changes; killed, and serving again after %v", changes, o.crash())
}

// A newcomer with another bootstrap is remembered as soon as it serves, though endpoints change all the time: what was remembered before fits no
// Envoy that starts from then on.
func TestAHandoverAndTheDeathOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newOutage(t, w)
	backends := []*lab.Backend{w.Backend("red"), w.Backend("blue")}
	override := filepath.Join(t.TempDir(), "override.json")
	put := func(seconds int) {
		t.Helper()
		w.Check(os.WriteFile(override+"~", fmt.Appendf(nil, `{"stats_flush_interval": "%ds"}`, seconds), 0o600))
		w.Check(os.Rename(override+"~", override))
	}
	put(6)
	w.Service("busy.test", backends[0])
	o.start("--bootstrapOverride", override, "--drainDuration", "1s", "--parentShutdownDuration", "2s")
	o.remembered()
	before, err := o.agent.Envoy()
	o.Check(err)
	put(7)
	changes := 0
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		changes++
		w.Service("busy.test", backends[changes%2])
		now, err := o.agent.Envoy() // an error while there are two
		if err == nil && now == before {
			err = fmt.Errorf("process %d still serves", now)
		}
		return err
	}))
	o.leave()
	t.Logf("%d changes; all killed, and serving again after %v", changes, o.crash())
}

// An agent that is upgraded while discovery is away remembers all that Envoy has once discovery is back, though Envoy's first streams to it have ended
// without an answer.
func TestLastGoodAfterAnUpgradeWithoutDiscovery(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	for range 2 {
		path, err := o.agent.LastGood()
		o.Check(err)
		before, err := os.Stat(path)
		o.Check(err)
		o.leave()
		out, err := exec.Command(lab.Program("agent"), "upgrade", "--configPath", o.agent.ConfigPath, "--statusPort", o.port).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.says("/metrics", "pilotlight_agent_discovery_connected 0")
		o.Check(o.Discovery.Restart())
		o.says("/metrics", "pilotlight_agent_discovery_connected 1")
		o.Check(lab.Eventually(lab.StopLimit, func() error {
			if now, err := os.Stat(path); err != nil || os.SameFile(before, now) {
				return fmt.Errorf("%s is the file of before the upgrade, %w", path, err)
			}
			return nil
		}))
	}
	o.leave()
	t.Logf("killed, and serving again after %v", o.crash())
}

// configPath is removed or moved away, with every socket in it: Envoy serves on, also across an upgrade of the agent, and configuration arrives
// as before.
func TestConfigPathIsRemoved(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	envoy, err := o.agent.Envoy()
	o.Check(err)
	load := lab.StartLoad(o.http, "http://reviews.test/", 2, 0)
	next, last := "two", "one"
	backends := map[string]*lab.Backend{next: o.Backend(next), last: o.Backend(last)}
	for _, harm := range []func(path string) error{
		os.RemoveAll,
		func(path string) error { return os.Rename(path, path+"-aside") },
		func(path string) error { return errors.Join(os.Rename(path, path+"-swapped"), os.Mkdir(path, 0o700)) },
	} {
		o.Check(harm(o.agent.ConfigPath))
		o.Check(lab.Eventually(lab.StopLimit, func() error {
			found, err := filepath.Glob(filepath.Join(o.agent.ConfigPath, "agent-*.sock"))
			if len(found) != 1 {
				err = fmt.Errorf("sockets of the agent: %q, %w", found, err)
			}
			return err
		}))
		out, err := exec.Command(lab.Program("agent"), "upgrade", "--configPath", o.agent.ConfigPath, "--statusPort", o.port).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.says("/healthz/ready", "ready")
		o.Service("reviews.test", backends[next])
		o.answers(next)
		next, last = last, next
	}
	if now, err := o.agent.Envoy(); err != nil || now != envoy {
		t.Errorf("process %d serves, want still %d: %v", now, envoy, err)
	}
	lab.Unharmed(t, load)
	o.Service("reviews.test", backends["one"])
	o.answers("one")
	o.remembered()
	o.leave()
	o.crash()
}

// Agents of one configPath that start in another order while discovery is away serve what was theirs.
func TestLastGoodOfTwoAgents(t *testing.T) {
	t.Parallel()
	dir := lab.ShortDir(t)
	first := startOutage(t, newWorld(t), "--configPath", dir)
	second := *first
	second.ip, second.http, second.port = first.Address(), fmt.Sprintf("127.0.0.1:%d", lab.Port(t)), fmt.Sprint(lab.Port(t))
	fmt.Sscan(second.port, &second.ports[1])
	_, port, _ := strings.Cut(second.http, ":")
	fmt.Sscan(port, &second.ports[0])
	second.ports[2] = lab.Port(t)
	second.start("--configPath", dir)
	second.agent.ConfigPath = filepath.Join(dir, "agent-1")
	second.remembered()
	first.leave()
	for _, o := range []*outage{&second, first} {
		o.agent.Signal(syscall.SIGTERM)
		_, err := o.agent.Wait(lab.StopLimit)
		o.Check(err)
	}
	for _, o := range []*outage{&second, first} {
		o.start("--configPath", dir)
		o.says("/healthz/ready?verbose", "serves the configuration of 20")
	}
}

// An agent whose certificate is broken when it starts, while discovery is away, serves what Envoy had with a good one.
func TestLastGoodWithABadCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	certs, ca := filepath.Join(t.TempDir(), "certs"), w.authorityOf("root")
	issue := func(ca *lab.Authority, change func(*x509.Certificate)) lab.Identity {
		t.Helper()
		identity, err := ca.IssueWith(workload, 1001, change)
		w.Check(err)
		return identity
	}
	same := func(*x509.Certificate) {}
	good := issue(ca, same)
	w.Check(good.Mount(certs))
	o := startOutage(t, w, "--certDir", certs)
	o.leave()
	again := func() {
		t.Helper()
		o.agent.Signal(syscall.SIGTERM)
		_, err := o.agent.Wait(lab.StopLimit)
		o.Check(err)
		o.launch("--certDir", certs)
		o.answers("one")
		o.says("/metrics", "pilotlight_agent_last_good_timestamp_seconds 1")
	}
	expired := issue(ca, func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(time.Minute) })
	foreign, other := issue(w.authorityOf("foreign"), same), issue(ca, same)
	foreign.Roots = good.Roots
	for _, bad := range []struct {
		name string
		lab.Identity
	}{
		{"expired", expired},
		{"half-written", lab.Identity{Chain: good.Chain[:len(good.Chain)/2], Key: good.Key, Roots: good.Roots}},
		{"foreign", foreign},
		{"another key", lab.Identity{Chain: good.Chain, Key: other.Key, Roots: good.Roots}},
		{"empty", lab.Identity{}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			w.Check(bad.Mount(certs))
			again()
		})
	}
	t.Run("missing", func(t *testing.T) {
		w.Check(os.RemoveAll(certs))
		again()
	})
	t.Run("good", func(t *testing.T) {
		w.Check(good.Mount(certs))
		again()
		o.Check(o.agent.AwaitReady())
	})
}

// A file that does not fit is named and not used: Envoy waits for discovery, as it would without one.
func TestABrokenMemory(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	path, err := o.agent.LastGood()
	o.Check(err)
	text, err := os.ReadFile(path)
	o.Check(err)
	i := bytes.IndexByte(text, '{')
	text[i+5] ^= 1
	o.Check(os.WriteFile(path, text, 0o600))
	o.leave()
	pid, err := o.agent.Envoy()
	o.Check(err)
	o.Check(syscall.Kill(pid, syscall.SIGKILL))
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		if log := o.agent.Log(); !strings.Contains(log, `the last good configuration is not used" file=`+path+` err="the checksum of its header is wrong`) {
			return fmt.Errorf("the log does not say so:\n%s", tail(log, 10))
		}
		return nil
	}))
	o.Check(lab.Eventually(lab.StopLimit, func() error {
		_, err := lab.Get("http://127.0.0.1:" + o.port + "/healthz/ready")
		if err == nil || !strings.Contains(err.Error(), "connections to discovery at "+o.Discovery.GRPC+" fail") {
			return fmt.Errorf("want unready, and why: %v", err)
		}
		return nil
	}))
	o.Check(o.Discovery.Restart())
	o.answers("one")
	if n := strings.Count(o.agent.Log(), "is not used"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// A full disk costs what came after it, and is told of: what was remembered before is served.
func TestLastGoodOnAFullDisk(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		dir := lab.ShortDir(t)
		lab.MountTmpfs(t, dir, "size=1m,mode=700", 0)
		w := newWorld(t)
		o := startOutage(t, w, "--configPath", dir)
		lab.Fill(t, filepath.Join(dir, "ballast"))
		for i := range 20 {
			w.Service(fmt.Sprintf("other-%d.test", i), w.Backend("other"))
		}
		o.Check(lab.Eventually(lab.StopLimit, func() error {
			if log := o.agent.Log(); !strings.Contains(log, "the configuration is not remembered") || !strings.Contains(log, "no space left on device") {
				return fmt.Errorf("the log does not say so:\n%s", tail(log, 10))
			}
			return nil
		}))
		o.says("/metrics", "pilotlight_agent_last_good_recording 0")
		o.says("/metrics", "pilotlight_agent_last_good_recording_ended_total 1")
		o.leave()
		o.crash()
	})
}

// Under mutual TLS the agent is who discovery talks to: it shows the newest certificate, and refuses another discovery.
func TestLastGoodUnderMutualTLS(t *testing.T) {
	t.Parallel()
	ca, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	server, client := t.TempDir(), t.TempDir()
	mount := func(dir, san string, serial int64) {
		t.Helper()
		uri, err := url.Parse(san)
		if err != nil {
			t.Fatal(err)
		}
		identity, err := ca.IssueWith("pilot.test", serial, func(c *x509.Certificate) { c.URIs = []*url.URL{uri} })
		if err == nil {
			err = identity.Mount(filepath.Join(dir, "certs"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(client, "certs")
	mount(server, pilot, 1)
	mount(client, workload, 1001)
	in := func(name string) string { return filepath.Join(server, "certs", name) }
	address := fmt.Sprintf("127.0.0.1:%d", lab.Port(t))
	w := newWorld(t, "--secureGRPCAddr", address, "--tlsCertFile", in("cert-chain.pem"), "--tlsKeyFile", in("key.pem"), "--caCertFile", in("root-cert.pem"))
	o := startOutage(t, w, "--discoveryAddress", address, "--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", own, "--pilotIdentity", pilot)
	o.leave()
	o.crash()
	mount(client, workload, 1002)
	o.Service("reviews.test", o.Backend("two"))
	o.Check(o.Discovery.Restart())
	o.answers("two")
	o.leave()
	mount(server, pilot+"-other", 2)
	o.Check(o.Discovery.Restart())
	o.says("/healthz/ready?verbose", "discovery shows a certificate of [")
	o.answers("two")
}

// A bootstrap that is refused, since discovery's newest listener is no good, leaves what is remembered as it was: the Envoy that serves
// keeps the older listener and its admin, and one that starts while discovery is away has that listener too.
func TestARefusedBootstrapIsNotRemembered(t *testing.T) {
	t.Parallel()
	override := filepath.Join(t.TempDir(), "override.json")
	write := func(seconds int) {
		t.Helper()
		if err := os.WriteFile(override, fmt.Appendf(nil, `{"stats_flush_interval": "%ds"}`, seconds), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(7)
	p := startPupil(t, startScript(t), "--lastGood", "on", "--bootstrapOverride", override, "--handoverTimeout", "8s")
	p.clusters(p.good)
	p.listeners(tcpListener("l", p.inbound[0], "good"), tcpListener("m", p.inbound[1], "good"))
	p.await("healthy", healthy)
	path := ""
	p.must(lab.Eventually(lab.StopLimit, func() (err error) {
		path, err = p.LastGood()
		return err
	}))
	before, err := os.Stat(path)
	p.must(err)
	parent, err := p.Envoy()
	p.must(err)
	p.listeners(badListener("l", p.inbound[0]), tcpListener("m", p.inbound[1], "good"))
	p.await("degraded", degraded("l"))
	write(8)
	p.must(lab.Eventually(lab.StopLimit*3, func() error {
		if log := p.Log(); !strings.Contains(log, "it has no listener at "+p.inbound[0]) {
			return fmt.Errorf("no refusal:\n%s", tail(log, 10))
		}
		return nil
	}))
	p.must(lab.Eventually(lab.StopLimit, func() error {
		pid, err := p.Envoy() // an error while the trial runs
		if err == nil && pid != parent {
			err = fmt.Errorf("process %d serves, want still %d", pid, parent)
		}
		return err
	}))
	p.must(lab.Eventually(lab.StopLimit, func() error {
		stats, err := lab.Get("http://" + p.Admin + "/stats?filter=^server.state$")
		if err == nil && !strings.Contains(stats, "server.state") {
			err = fmt.Errorf("the admin's front answers %.200q", stats)
		}
		return err
	}))
	if now, err := os.Stat(path); err != nil || !os.SameFile(before, now) {
		t.Errorf("another configuration is remembered: %v", err)
	}
	p.goAway()
	p.must(syscall.Kill(parent, syscall.SIGKILL))
	p.await("degraded", degraded("discovery is away"))
	p.serves(p.inbound[0])
	p.serves(p.inbound[1])
}
