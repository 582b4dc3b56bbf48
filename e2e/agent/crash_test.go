package agent

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that is killed as soon as it serves is back each time, ten times in a row; the times are printed.
func TestCrashTenTimes(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	var took []time.Duration
	for range 10 {
		pid := s.pid("serving")
		began := time.Now()
		s.must(syscall.Kill(pid, syscall.SIGKILL))
		s.must(lab.Eventually(lab.StopLimit, func() error {
			if lab.Alive(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
			_, err := lab.Get("http://" + s.address)
			return err
		}))
		took = append(took, time.Since(began).Round(time.Millisecond))
		s.must(s.awaitAlone(lab.StopLimit))
	}
	t.Logf("killed, and serving again after %v", took)
}

// An Envoy that ends itself, or is ended by somebody else, with status 0 is missed all the same.
func TestCrashWithStatusZero(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	for name, blow := range map[string]func(pid int){
		"SIGINT":  func(pid int) { s.must(syscall.Kill(pid, syscall.SIGINT)) },
		"SIGTERM": func(pid int) { s.must(syscall.Kill(pid, syscall.SIGTERM)) },
	} {
		pid := s.pid("serving")
		blow(pid)
		s.must(s.awaitStatus(lab.StopLimit, "another process", func(a agentStatus) bool {
			return a.servedByAnother(pid)
		}))
		if err := s.AwaitLog(`msg="Envoy ended unasked" epoch=0 why="exit status 0"`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Even who may open the admin's socket cannot end Envoy by it, nor change its runtime.
func TestTheAdminOnlyTells(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	admin := lab.OverUnix(filepath.Join(s.ConfigPath, "admin-rev0-*.sock"))
	for request, want := range map[string]int{
		"POST /quitquitquit": 403, "POST /healthcheck/fail": 403, "POST /runtime_modify?a=b": 403, "POST /cpuprofiler?enable=y": 403,
		"GET /server_info": 200, "GET /stats/prometheus?usedonly": 200, "GET /stats?filter=x": 200, "GET /": 200, "POST /logging?level=info": 200,
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequest(method, "http://envoy"+path, nil)
		s.must(err)
		response, err := admin.Do(r)
		s.must(err)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s, want %d", request, response.Status, want)
		}
	}
}

// An Envoy that always fails is tried with growing gaps, and then given up: the status is not 0 and the last line has
// Envoy's words.
func TestCrashAlways(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	s.mutate = func(text string) string { return strings.Replace(text, `"id": "standalone"`, `"id": "out of luck"`, 1) }
	s.configure(1)
	s.launch("--binaryPath", unlucky(t), "--restartBudget", "4", "--restartBackOff", "100ms")
	code, err := s.Wait(30 * time.Second)
	s.must(err)
	if last := tail(s.Log(), 1); code != 3 || !strings.Contains(last, "out of luck") {
		t.Errorf("exit status %d, last line %q; want 3 and Envoy's words", code, last)
	}
	var starts []time.Time
	for _, match := range regexp.MustCompile(`time=(\S+) .*msg="Envoy started"`).FindAllStringSubmatch(s.Log(), -1) {
		at, err := time.Parse(time.RFC3339, match[1])
		s.must(err)
		starts = append(starts, at)
	}
	if len(starts) != 5 {
		t.Fatalf("%d starts, want the first and four retries", len(starts))
	}
	atLeast := 78 * time.Millisecond // the back-off less its jitter of a fifth, and what the log rounds
	for i := 1; i < len(starts); i++ {
		if gap := starts[i].Sub(starts[i-1]); gap < atLeast {
			t.Errorf("gap %d is %s, want at least %s", i, gap, atLeast)
		}
		atLeast *= 2
	}
	records, err := filepath.Glob(filepath.Join(s.ConfigPath, "flight", "*.json"))
	s.must(err)
	if len(records) != 3 {
		t.Errorf("%d flight records, want the last three", len(records))
	}
	for _, path := range records {
		data, err := os.ReadFile(path)
		s.must(err)
		if !strings.Contains(string(data), "exit status 7") || !strings.Contains(string(data), `"last_lines"`) {
			t.Errorf("flight record %s lacks exit or last lines:\n%.600s", path, data)
		}
	}
}

// An Envoy that is frozen is said to be unready within two seconds, and replaced.
func TestHangFrozen(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	ready := "http://" + s.status + "/healthz/ready"
	s.must(lab.Eventually(lab.StopLimit, func() error { _, err := lab.Get(ready); return err }))
	pid := s.pid("serving")
	watch := lab.StartStopwatch()
	s.must(syscall.Kill(pid, syscall.SIGSTOP))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if _, err := lab.Get(ready); err == nil {
			return fmt.Errorf("it is said to be ready")
		}
		return nil
	}))
	watch.Within(t, 2*time.Second, "to be unready")
	unready := watch.Took()
	s.must(s.awaitRevision(1, lab.StopLimit))
	t.Logf("frozen: unready after %s, serving again after %s", unready, watch.Took())
	if lab.Alive(pid) {
		t.Errorf("the frozen process %d lives", pid)
	}
}

// An Envoy that a debugger holds is said to be unready, and left alone: it serves again when it is let go.
func TestHeldByADebugger(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	pid := s.pid("serving")
	detach := s.debug(pid)
	s.must(lab.Eventually(lab.StopLimit, func() error {
		_, err := lab.Get("http://" + s.status + "/healthz/ready")
		if err == nil || !strings.Contains(err.Error(), "a debugger holds the process") {
			return fmt.Errorf("readiness says %v", err)
		}
		return nil
	}))
	<-time.After(2 * time.Second) // in which one that is silent would be killed
	detach()
	s.must(s.awaitStatus(lab.StopLimit, "ready again", func(a agentStatus) bool { return a.Ready }))
	if now := s.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
}

// debug freezes the main thread of an Envoy as a debugger does, so that the agent does not replace it, until the function is called that
// it returns.
func (s *standalone) debug(pid int) (detach func()) {
	s.t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	s.must(syscall.PtraceAttach(pid))
	_, err := syscall.Wait4(pid, nil, syscall.WALL, nil)
	s.must(err)
	return func() {
		s.t.Helper()
		s.must(syscall.PtraceDetach(pid))
		runtime.UnlockOSThread()
	}
}

// An Envoy that is busy with a large update is left alone.
func TestHangBusy(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	clusters := filepath.Join(t.TempDir(), "cds.json")
	write := func(n int) {
		var resources []string
		for i := range n {
			resources = append(resources, fmt.Sprintf(`{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "c%d",
				"load_assignment": {"cluster_name": "c%[1]d", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]}}`,
				i, lab.SocketAddress("127.0.0.1:9")))
		}
		text := fmt.Sprintf(`{"version_info": "%d", "resources": [%s]}`, n, strings.Join(resources, ","))
		s.must(os.WriteFile(clusters+"~", []byte(text), 0o600))
		s.must(os.Rename(clusters+"~", clusters))
	}
	write(1)
	s.mutate = func(text string) string {
		return strings.Replace(text, `"static_resources"`,
			fmt.Sprintf(`"dynamic_resources": {"cds_config": {"resource_api_version": "V3", "path_config_source": {"path": %q}}}, "static_resources"`, clusters), 1)
	}
	s.configure(1)
	s.launch()
	s.must(s.awaitRevision(1, lab.StopLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	pid := s.pid("serving")
	began := time.Now()
	write(3000)
	s.must(lab.Eventually(time.Minute, func() error {
		stats, err := lab.Stats(s.Admin, `^cluster_manager\.active_clusters$`)
		if err == nil && stats["cluster_manager.active_clusters"] < 3000 {
			err = fmt.Errorf("%v", stats)
		}
		return err
	}))
	t.Logf("3,000 clusters took %s", time.Since(began).Round(time.Millisecond))
	if now := s.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d:\n%s", now, pid, tail(s.Log(), 20))
	}
}

// An agent that is killed leaves no Envoy, in an overlap neither.
func TestKilled(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*standalone){
		"alone":         func(*standalone) {},
		"in an overlap": func(s *standalone) { s.overlap(2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStandalone(t)
			before(s)
			envoys := lab.Children(s.Pid)
			watch := lab.StartStopwatch()
			s.Signal(syscall.SIGKILL)
			_, err := s.Wait(lab.StopLimit)
			s.must(err)
			s.must(gone(lab.StopLimit, envoys...))
			t.Logf("%d Envoys were gone after %s", len(envoys), watch.Took())
			watch.Within(t, orphanLimit, "the end of a killed agent's Envoys")
			if len(envoys) == 0 {
				t.Error("there was no Envoy")
			}
		})
	}
}

// A frozen Envoy outlives its killed agent. The next agent finds it, ends it, sweeps after it, and serves.
func TestKilledWhileEnvoyIsFrozen(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	frozen, killed := s.pid("serving"), s.Sidecar
	s.must(syscall.Kill(frozen, syscall.SIGSTOP))
	killed.Signal(syscall.SIGKILL)
	_, err := killed.Wait(lab.StopLimit)
	s.must(err)
	if !lab.Alive(frozen) {
		t.Log("the frozen Envoy has ended by itself")
	}
	segments := segmentsOf(t, killed.Log())
	s.launchIn(killed)
	s.must(s.awaitRevision(1, lab.StopLimit))
	if lab.Alive(frozen) {
		t.Errorf("the frozen Envoy %d of the killed agent lives", frozen)
	}
	for _, path := range segments {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("shared memory %s of the killed agent is still there", path)
		}
	}
}

// segmentsOf returns the paths of the shared memory of each family that an agent's log names; there must be some.
func segmentsOf(t *testing.T, log string) []string {
	t.Helper()
	paths := segmentsIn(log)
	if len(paths) == 0 {
		t.Errorf("no base-id in the log:\n%s", log)
	}
	return paths
}

// removeSegments removes the shared memory of the families that an agent's log names.
func removeSegments(log string) {
	for _, path := range segmentsIn(log) {
		_ = os.Remove(path)
	}
}

func segmentsIn(log string) (paths []string) {
	for _, match := range regexp.MustCompile(`base_id=(\d+)`).FindAllStringSubmatch(log, -1) {
		paths = append(paths, "/dev/shm/envoy_shared_memory_"+match[1]+"0")
	}
	return paths
}
