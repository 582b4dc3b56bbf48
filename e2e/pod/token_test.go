//go:build pod

package pod

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// On a machine root gives the agent another token, and the agent, which runs as its own user, reads it; nobody else does. Where others may
// write to the directory, and so may have put a file there, it is for root.
func TestATokenThatRootGives(t *testing.T) {
	const nobody = 0
	for name, c := range map[string]struct {
		dir, file int // their owners; nobody for root, -1 for no file
		mode      os.FileMode
		reader    int
	}{
		"the agent's directory, as the page of machines has it": {proxyUID, nobody, 0o700, proxyUID},
		"the agent's directory without a token":                 {proxyUID, -1, 0o700, proxyUID},
		"the agent's file":                                      {nobody, proxyUID, 0o755, proxyUID},
		"root's":                                                {nobody, nobody, 0o755, nobody},
		"a neighbour's file where all may write":                {nobody, appUID, 0o777 | os.ModeSticky, nobody},
		"a directory of a neighbour where all may write":        {appUID, -1, 0o777, nobody},
	} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			check(t, os.Chmod(filepath.Dir(above), 0o755)) // other users start the readers
			dir := filepath.Join(above, "pilotlight")
			token := filepath.Join(dir, "vm.token")
			check(t, os.Mkdir(dir, 0o700))
			if c.file >= 0 {
				check(t, os.WriteFile(token, []byte("dead\n"), 0o644))
				check(t, os.Chown(token, c.file, c.file))
			}
			check(t, os.Chown(dir, c.dir, c.dir))
			check(t, os.Chmod(dir, c.mode))
			if output, err := exec.Command(lab.Program("agent"), "join", "--token", "pljoin-1-2", "--caToken", token).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			for _, uid := range []int{proxyUID, appUID} {
				cat := exec.Command("cat", token)
				cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
				text, err := cat.Output()
				if reads := err == nil && string(text) == "pljoin-1-2\n"; reads != (uid == c.reader) {
					t.Errorf("user %d reads it: %t, want %t", uid, reads, uid == c.reader)
				}
			}
			if info, err := os.Lstat(token); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}
