package agent

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// chaos is a standalone that gets blows.
type chaos struct {
	*standalone
	random   *rand.Rand
	revision int
	struck   []string
	excused  bool   // requests of this bout may fail
	ended    []int  // processes that were told to
	proxy    string // the agent's configPath, a small file system
	binary   string // of Envoy
	flags    []string
}

func (c *chaos) next() int {
	c.revision++
	return c.revision
}

func (c *chaos) told() string { return strings.Join(c.struck, ", then ") }

// Blows at random, under load: what is never allowed never happens, requests fail only after a blow that excuses it,
// it always comes to rest serving, and ends clean.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos-seed %d", seed)
	lab.InMountAndNetworkNamespace(t, func(t *testing.T) {
		lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1") // with full shared memory handovers are side by side
		runChaos(t, seed)
	})
}

func runChaos(t *testing.T, seed uint64) {
	c := &chaos{random: rand.New(rand.NewPCG(seed, 0)), revision: 1, proxy: lab.ShortDir(t), binary: filepath.Join(lab.ShortDir(t), "envoy")}
	lab.MountTmpfs(t, c.proxy, "size=1m", 0)
	lab.MountTmpfs(t, "/dev/shm", "size=64k", 0)
	if output, err := exec.Command("cp", "-p", lab.Envoy(), c.binary).CombinedOutput(); err != nil {
		t.Fatalf("copy Envoy: %v: %s", err, output)
	}
	c.flags = []string{
		"--restartBudget", "1000000", "--handoverTimeout", "5s", "--terminationDrainDuration", "1s",
		"--configPath", c.proxy, "--binaryPath", c.binary,
	}
	c.standalone = startStandalone(t, c.flags...)
	for end := time.Now().Add(time.Duration(*chaosSeconds) * time.Second); time.Now().Before(end); {
		c.bout()
		if t.Failed() {
			return
		}
	}
	c.configure(c.next())
	c.must(c.awaitRevision(c.revision, 30*time.Second))
}

// bout strikes one to four blows a short time apart, then waits for rest.
func (c *chaos) bout() {
	c.t.Helper()
	load := lab.StartLoad(c.address, "http://"+c.address+"/", 3, 3)
	c.struck, c.excused, c.ended = nil, false, nil
	for range 1 + c.random.IntN(4) {
		b := blows[c.random.IntN(len(blows))]
		c.struck = append(c.struck, b.name)
		c.excused = c.excused || b.excuses
		b.strike(c)
		c.oneServes()
		<-time.After(time.Duration(c.random.IntN(400)) * time.Millisecond)
	}
	c.settle(40 * time.Second)
	c.cure()
	c.settle(40 * time.Second)
	requests, failures := load.Stop()
	if len(failures) > 0 && !c.excused {
		c.t.Errorf("%d of %d requests failed after %s; the first: %q", len(failures), requests, c.told(), failures[:min(3, len(failures))])
	}
	c.t.Logf("%d requests, %d failed: %s", requests, len(failures), c.told())
}

// chaosSeconds and chaosSeed: make chaos says minutes. A seed that failed is printed, and reproduces the blows.
var (
	chaosSeconds = flag.Int("chaos", 6, "seconds of chaos")
	chaosSeed    = flag.Uint64("chaos-seed", 0, "seed of the chaos; 0 draws one")
)

// blow is something that happens to the agent's Envoys, and whether requests may fail for it: when a process that
// serves is killed or frozen, what it had accepted is lost.
type blow struct {
	name    string
	strike  func(c *chaos)
	excuses bool
}

var blows = []blow{
	{"a new configuration", func(c *chaos) { c.configure(c.next()) }, false},
	{"an invalid configuration", func(c *chaos) {
		c.mutate = func(text string) string { return strings.Replace(text, `"node"`, `"nodde"`, 1) }
		c.configure(c.next())
		c.mutate = nil
	}, false},
	{"kill the serving epoch", func(c *chaos) { c.kill("serving", syscall.SIGKILL) }, true},
	{"freeze the serving epoch", func(c *chaos) { c.kill("serving", syscall.SIGSTOP) }, true},
	{"end the serving epoch", func(c *chaos) { c.kill("serving", syscall.SIGTERM) }, true},
	{"kill a newcomer", (*chaos).killNewcomer, false},
	{"kill the draining epoch", func(c *chaos) { c.kill("draining", syscall.SIGKILL) }, true},
	{"freeze the draining epoch", func(c *chaos) { c.kill("draining", syscall.SIGSTOP) }, true},
	{"fill the disk", func(c *chaos) { lab.Fill(c.t, filepath.Join(c.proxy, "ballast")) }, false},
	{"fill the shared memory", func(c *chaos) { lab.Fill(c.t, "/dev/shm/ballast") }, false},
	{"replace the binary by rubbish", func(c *chaos) {
		if _, err := os.Stat(c.binary + ".good"); err != nil {
			c.must(os.Rename(c.binary, c.binary+".good"))
			c.must(os.WriteFile(c.binary, []byte("rubbish"), 0o755))
		}
	}, false},
	{"unlink the admin's socket", func(c *chaos) {
		paths, err := filepath.Glob(filepath.Join(c.proxy, "admin-rev*.sock"))
		c.must(err)
		for _, path := range paths {
			_ = os.Remove(path) // perhaps its Envoy has just ended
		}
	}, true},
	{"kill the agent in a handover", func(c *chaos) {
		c.cure()
		c.configure(c.next())
		<-time.After(time.Duration(c.random.IntN(600)) * time.Millisecond)
		former, watch := c.Sidecar, lab.StartStopwatch()
		former.Signal(syscall.SIGKILL)
		_, err := former.Wait(lab.StopLimit)
		c.must(err)
		c.must(lab.Eventually(lab.StopLimit, func() error {
			if left := envoysIn(c.proxy); len(left) > 0 {
				return fmt.Errorf("Envoys %v outlive their agent", left)
			}
			return nil
		}))
		watch.Within(c.t, orphanLimit, "the end of a killed agent's Envoys")
		c.launchIn(former, c.flags...)
		c.must(c.awaitAlone(lab.StopLimit))
	}, true},
	{"nothing", func(*chaos) {}, false},
}

// cure takes back what does not pass by itself.
func (c *chaos) cure() {
	for _, path := range []string{filepath.Join(c.proxy, "ballast"), "/dev/shm/ballast"} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			c.must(err)
		}
	}
	if _, err := os.Stat(c.binary + ".good"); err == nil {
		c.must(os.Rename(c.binary+".good", c.binary))
	}
}

// kill signals the epoch in a state, and returns its process, 0 where there is none.
func (c *chaos) kill(state string, signal syscall.Signal) int {
	a, err := c.ask()
	c.must(err)
	for _, e := range a.Epochs {
		if e.State == state && e.Pid != 0 {
			_ = syscall.Kill(e.Pid, signal)
			if signal != syscall.SIGSTOP {
				c.ended = append(c.ended, e.Pid)
			}
			return e.Pid
		}
	}
	return 0
}

// oneServes reports more processes than a handover explains: a parent that the newcomer has just replaced may count as
// serving for a moment, and one that was killed may not be reaped yet.
func (c *chaos) oneServes() {
	a, err := c.ask()
	c.must(err)
	serving := 0
	for _, e := range a.Epochs {
		if e.State == "serving" {
			serving++
		}
	}
	if serving > 2 || len(a.Epochs) > 4 {
		c.t.Errorf("%d epochs serve of %+v", serving, a.Epochs)
	}
}

// settle waits until one epoch serves alone, and does so: what has just been frozen is said to serve for another second, and what
// was told to end may serve for another moment.
func (c *chaos) settle(limit time.Duration) {
	c.t.Helper()
	c.must(lab.Eventually(limit, func() error {
		if _, err := lab.Get("http://" + c.address); err != nil {
			return err
		}
		if i := slices.IndexFunc(c.ended, lab.Alive); i >= 0 {
			return fmt.Errorf("process %d has not ended, after %s", c.ended[i], c.told())
		}
		a, err := c.ask()
		alone := err == nil && len(a.Epochs) == 1 && a.Epochs[0].State == "serving"
		if err == nil && !(alone && a.Ready && (a.Handover == "" || a.Handover == "refused")) {
			err = fmt.Errorf("status is %+v, want one epoch that serves, after %s", a, c.told())
		}
		return err
	}))
}
