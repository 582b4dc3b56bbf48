package agent

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A binary that cannot take over changes nothing, and the reason is printed.
func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	before := s.vitals()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		s.must(os.WriteFile(path, text, 0o755))
		return path
	}
	program, err := os.ReadFile(lab.Program("agent"))
	s.must(err)
	foreign := slices.Clone(program)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_S390)) // e_machine
	locked := write("locked", program)
	s.must(os.Chmod(locked, 0o644))
	open := write("open", program) // as one that is still being written
	writing, err := os.OpenFile(open, os.O_WRONLY, 0)
	s.must(err)
	defer writing.Close()
	text := write("text", []byte("no program"))
	for _, test := range []struct{ binary, want string }{
		{text, "exec format error"},
		{text + ".none", "no such file"},
		{lab.Program("discovery"), "cannot take over: exit status 2: "},
		{write("empty", nil), "exec format error"},
		{write("half", program[:len(program)/2]), "cannot take over: "},
		{write("little", program[:100]), "cannot take over: "},
		{write("foreign", foreign), "exec format error"},
		{locked, "permission denied"},
		{open, "text file busy"},
		{dir, "permission denied"},
		{"/dev/zero", "permission denied"},
	} {
		if err := s.upgrade(test.binary); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.binary, err, test.want)
		}
	}
	after := s.vitals()
	if a, err := s.ask(); err != nil || a.Upgrades.Count != 0 || a.Upgrades.Failure == "" || after.envoy != before.envoy || after.image != before.image {
		t.Errorf("it tells %+v, %v; %+v", a, err, after)
	}
}
