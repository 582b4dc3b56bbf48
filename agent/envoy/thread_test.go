package envoy

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// churn ends threads by the thousand: a goroutine that is locked to its thread and returns takes it along.
func churn() {
	for range 20 {
		var batch sync.WaitGroup
		for range 100 {
			batch.Go(runtime.LockOSThread)
		}
		batch.Wait()
	}
}

// liveAndChurned runs a real Envoy, forked by fork, lets threads end once it is live, and reports whether it was still
// running when it was killed, limit later.
func liveAndChurned(t *testing.T, limit time.Duration, fork func(func())) (live, survived bool) {
	t.Helper()
	p := newProxy(t, "")
	p.Binary, p.HotRestart, p.Fork = envoyBinary(t), true, fork
	p.Options = Options{Concurrency: 1, LogLevel: "warning", DrainTime: time.Second, ParentShutdown: 2 * time.Second}
	var struck sync.WaitGroup
	p.Run(agent.Launch{Config: someConfig}, nil, func(r agent.Report) {
		if r != agent.Live {
			return
		}
		live = true
		struck.Go(func() { // Run waits for report
			pid := p.Pids()[0]
			churn()
			dead := lab.Eventually(limit, func() error {
				if lab.Alive(pid) {
					return fmt.Errorf("process %d lives", pid)
				}
				return nil
			})
			survived = dead != nil
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
	})
	struck.Wait()
	return live, survived
}

// The end of other threads never ends Envoy, since the thread that forked it does not end.
func TestThreadsThatEndLeaveEnvoyAlone(t *testing.T) {
	if live, survived := liveAndChurned(t, time.Second, forker(t)); !live || !survived {
		t.Errorf("Envoy was live %v, and survived %v; want both", live, survived)
	}
}

// If Envoy is forked from a thread that ends, it receives its parent-death signal: the danger is real.
func TestAThreadThatEndsTakesItsEnvoyAlong(t *testing.T) {
	live, survived := liveAndChurned(t, patient, func(f func()) {
		done := make(chan struct{})
		var begin func()
		begin = func() {
			runtime.LockOSThread()
			if syscall.Gettid() == syscall.Getpid() { // the main thread does not end with its goroutine: another one, while this one has it
				defer runtime.UnlockOSThread()
				go begin()
				<-done
				return
			}
			defer close(done)
			f()
		}
		go begin()
		<-done
	})
	if live && survived {
		t.Error("Envoy survived the end of the thread that forked it: is the test's premise gone?")
	}
}
