package agent

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// soakFor is how long the soak of a mesh lasts: SOAK=10m make soak.
var soakFor = flag.Duration("soak-for", 5*time.Second, "how long the soak of a mesh lasts")

// soaked is an agent in a busy mesh: a service that nobody asks for changes its endpoint every 0.4 s.
type soaked struct {
	*outage
	alone           *standalone // the same agent
	envoy, override string      // files
	two             [2]string   // builds of the agent
	count           int
	interval        int // seconds, in the last bootstrap
}

// What a sidecar goes through in its life, one thing after the other: no request fails but those that an Envoy had accepted when it was killed, and
// nothing is left.
func TestSoakMesh(t *testing.T) {
	t.Parallel()
	lab.InMountAndNetworkNamespace(t, func(t *testing.T) {
		lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1") // without its sockets, an Envoy is replaced side by side
		soakMesh(t)
	})
}

func soakMesh(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := startSoaked(t)
	defer s.changes()()
	counts, requests, lost := map[string]int{}, int64(0), 0
	series := map[string][]float64{}
	for end := time.Now().Add(*soakFor); time.Now().Before(end) && !t.Failed(); {
		event := events[random.IntN(len(events))]
		counts[event.name]++
		load := lab.StartLoad(s.http, "http://reviews.test/", 2, 1)
		event.happens(s)
		s.settled(event.name)
		asked, failures := load.Stop()
		if requests += asked; event.kills {
			lost += len(failures)
		} else if len(failures) > 0 {
			t.Errorf("%s: %d of %d requests failed, such as %q", event.name, len(failures), asked, failures[:min(3, len(failures))])
		}
		v := s.alone.vitals()
		series["kB resident"] = append(series["kB resident"], float64(v.resident>>10))
		series["threads"] = append(series["threads"], float64(v.threads))
		series["descriptors"] = append(series["descriptors"], float64(len(v.files)))
	}
	t.Logf("%d requests, %d lost with an Envoy that was killed; %v", requests, lost, counts)
	for what, values := range series {
		level(t, what, values)
	}
	if code := s.agent.Stop(lab.StopLimit); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	for _, path := range segmentsIn(s.agent.Log()) {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	for _, path := range leftovers(t, s.agent.ConfigPath) {
		if kept, _ := filepath.Match(lab.LastGood, filepath.Base(path)); !kept {
			t.Errorf("%s is left", path)
		}
	}
}

func startSoaked(t *testing.T) *soaked {
	t.Helper()
	s := &soaked{outage: newOutage(t, newWorld(t)), two: images(t), interval: 10}
	dir := lab.ShortDir(t)
	s.envoy, s.override = filepath.Join(dir, "envoy"), filepath.Join(dir, "override.json")
	s.replaceEnvoy()
	s.handOver()
	s.start("--binaryPath", s.envoy, "--bootstrapOverride", s.override, "--drainDuration", "1s", "--parentShutdownDuration", "2s",
		"--restartBudget", "1000000")
	s.alone = &standalone{Sidecar: s.agent, t: t, status: "127.0.0.1:" + s.port}
	s.remembered()
	s.settled("start")
	return s
}

// changes has discovery push endpoints until it is called again.
func (s *soaked) changes() (stop func()) {
	var texts [2]string
	path := ""
	for i := range texts {
		s.Service("busy.test", s.Backend(fmt.Sprint("busy-", i)))
		found, err := filepath.Glob(filepath.Join(s.Config, "*busy.test*"))
		if s.Check(err); len(found) != 1 {
			s.T.Fatalf("files of busy.test: %q", found)
		}
		path = found[0]
		text, err := os.ReadFile(path)
		s.Check(err)
		texts[i] = string(text)
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(400 * time.Millisecond):
			}
			err := os.WriteFile(path+"~", []byte(texts[i%2]), 0o644)
			if err = errors.Join(err, os.Rename(path+"~", path)); err != nil {
				s.T.Error(err)
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// event is something that happens to a sidecar. One that kills Envoy loses what that had accepted.
type event struct {
	name    string
	happens func(s *soaked)
	kills   bool
}

var events = []event{
	{"an upgrade of the agent", (*soaked).upgradeAgent, false},
	{"an upgrade of Envoy", (*soaked).replaceEnvoy, false},
	{"a hand-over", (*soaked).handOver, false},
	{"discovery dies", func(s *soaked) {
		s.leave()
		s.Check(s.Discovery.Restart())
	}, false},
	{"discovery dies in a hand-over", func(s *soaked) {
		s.handOver()
		s.leave()
		s.Check(s.Discovery.Restart())
	}, false},
	{"Envoy dies", func(s *soaked) { s.crash() }, true},
	{"Envoy dies while discovery is away", func(s *soaked) {
		s.remembers()
		s.leave()
		s.crash()
		s.Check(s.Discovery.Restart())
	}, true},
	{"the sockets are removed", (*soaked).removeSockets, false},
	{"the sockets are removed, and a hand-over", func(s *soaked) {
		s.removeSockets()
		s.handOver()
	}, false},
	{"the lock is removed, and an upgrade of the agent", func(s *soaked) {
		s.Check(os.Remove(filepath.Join(s.agent.ConfigPath, "agent.lock")))
		s.upgradeAgent()
	}, false},
	{"the lock is emptied, and an upgrade of the agent", func(s *soaked) {
		s.Check(os.Truncate(filepath.Join(s.agent.ConfigPath, "agent.lock"), 0))
		s.upgradeAgent()
	}, false},
	{"a service comes", func(s *soaked) {
		s.count++
		s.Service(fmt.Sprintf("new-%d.test", s.count%5), s.Backend(fmt.Sprint("new-", s.count%5)))
	}, false},
	{"SIGHUP", func(s *soaked) { s.agent.Signal(syscall.SIGHUP) }, false},
}

func (s *soaked) upgradeAgent() {
	s.T.Helper()
	s.count++
	s.Check(s.alone.upgrade(s.two[s.count%2]))
}

// replaceEnvoy puts another file of the same program in its place.
func (s *soaked) replaceEnvoy() {
	s.T.Helper()
	_ = os.Remove(s.envoy + "~")
	if os.Link(lab.Envoy(), s.envoy+"~") != nil { // on another file system
		text, err := os.ReadFile(lab.Envoy())
		s.Check(err)
		s.Check(os.WriteFile(s.envoy+"~", text, 0o755))
	}
	s.Check(os.Rename(s.envoy+"~", s.envoy))
}

// handOver has the bootstrap changed.
func (s *soaked) handOver() {
	s.T.Helper()
	s.interval++
	s.Check(os.WriteFile(s.override+"~", fmt.Appendf(nil, `{"stats_flush_interval": "%ds"}`, s.interval), 0o644))
	s.Check(os.Rename(s.override+"~", s.override))
}

func (s *soaked) removeSockets() {
	s.T.Helper()
	s.Check(lab.RemoveSockets(s.agent.ConfigPath))
}

// settled waits until one Envoy serves, with the bootstrap of the last hand-over, and what discovery has.
func (s *soaked) settled(after string) {
	s.T.Helper()
	s.Check(lab.Eventually(time.Minute, func() error {
		a, err := s.alone.ask()
		if err == nil && !(a.Ready && len(a.Epochs) == 1 && a.Epochs[0].State == "serving" && a.Handover == "") {
			err = fmt.Errorf("after %s: %+v", after, a)
		}
		if err != nil {
			return err
		}
		if found, err := filepath.Glob(filepath.Join(s.agent.ConfigPath, "agent-*.sock")); len(found) != 1 {
			return fmt.Errorf("after %s: sockets of the agent: %q, %w", after, found, err)
		}
		text, err := lab.Get("http://" + s.agent.Admin + "/config_dump?mask=bootstrap.stats_flush_interval")
		if want := fmt.Sprintf(`"%ds"`, s.interval); err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("after %s: Envoy has %s, want %s", after, text, want)
		}
		return err
	}))
}
