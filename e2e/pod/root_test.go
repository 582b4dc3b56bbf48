//go:build pod

package pod

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// readers returns owner, group and mode of a file.
func readers(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d %o", owner.Uid, owner.Gid, info.Mode().Perm())
}

// A person who is root makes no join token that discovery's user cannot read, and with it no other one either.
func TestTokensAreMadeByDiscoverysUser(t *testing.T) {
	dir := t.TempDir()
	discovery := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), lab.Program("discovery"), append(args, "--caDir", dir)...).CombinedOutput()
		return string(out), err
	}
	create := []string{"token", "create", "--namespace", "shop", "--service-account", "web"}
	text, err := discovery(create...)
	if err != nil {
		t.Fatal(text)
	}
	id := strings.Split(text, "-")[1]
	for _, name := range []string{"join-tokens.json", "lock", "."} {
		check(t, os.Chown(filepath.Join(dir, name), proxyUID, proxyUID))
	}
	for _, args := range [][]string{create, {"token", "revoke", id}} {
		if out, err := discovery(args...); err == nil || !strings.Contains(out, "join-tokens.json belongs to the user 1337, who could not read what root writes: run the command as that user") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	if got := readers(t, filepath.Join(dir, "join-tokens.json")); got != "1337 1337 600" {
		t.Errorf("the tokens are of %s", got)
	}
	check(t, os.Remove(filepath.Join(dir, "join-tokens.json")))
	check(t, os.Remove(filepath.Join(dir, "lock")))
	if out, err := discovery(create...); err == nil || !strings.Contains(out, "belongs to the user 1337") {
		t.Errorf("before discovery was there: %v, %s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the directory has %v, %v", left, err)
	}
}
