package envoy

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// A child dies when its agent's end of the pipe is closed, even a stopped child that handles no other signal.
func TestTieKills(t *testing.T) {
	tie, err := newTie()
	must(t, err)
	child := exec.Command("sh", "-c", "trap '' TERM HUP IO; kill -STOP $$")
	child.ExtraFiles = []*os.File{tie.read}
	must(t, child.Start())
	must(t, tie.to(child.Process.Pid))
	await(t, "the child is stopped", func() bool {
		facts, err := procnet.ReadStat(child.Process.Pid)
		return err == nil && facts.Stopped()
	})
	tie.cut()
	child.Wait()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("the child ended by %s, want it killed", child.ProcessState)
	}
}
