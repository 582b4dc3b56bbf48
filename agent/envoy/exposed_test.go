package envoy

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The owner of a directory can replace the files in it, and so can each user with write permission.
func TestJudgeStep(t *testing.T) {
	for name, test := range map[string]struct {
		owner, self uint32
		mode        fs.FileMode
		last        bool
		why         string
		shut        bool
	}{
		"its own":            {1337, 1337, fs.ModeDir | 0o755, true, "", false},
		"its own alone":      {1337, 1337, fs.ModeDir | 0o700, true, "", true},
		"root's":             {0, 1337, fs.ModeDir | 0o755, true, "", false},
		"an emptyDir":        {0, 1337, fs.ModeDir | 0o777, true, "has mode drwxrwxrwx", false},
		"of a group":         {0, 1337, fs.ModeDir | 0o775 | fs.ModeSetgid, true, "has mode dgrwxrwxr-x", false},
		"sticky":             {0, 1337, fs.ModeDir | 0o777 | fs.ModeSticky, true, "has mode dtrwxrwxrwx", false},
		"sticky, on the way": {0, 1337, fs.ModeDir | 0o777 | fs.ModeSticky, false, "", false},
		"open, on the way":   {0, 1337, fs.ModeDir | 0o777, false, "has mode drwxrwxrwx", false},
		"another user's":     {1000, 1337, fs.ModeDir | 0o700, false, "belongs to user 1000", false},
		"another's, to root": {1000, 0, fs.ModeDir | 0o700, true, "belongs to user 1000", false},
		"root's link":        {0, 1337, fs.ModeSymlink | 0o777, false, "", false},
		"another's link":     {1000, 1337, fs.ModeSymlink | 0o777, false, "belongs to user 1000", false},
	} {
		t.Run(name, func(t *testing.T) {
			if why, shut := judgeStep(test.owner, test.self, test.mode, test.last); why != test.why || shut != test.shut {
				t.Errorf("%q, shut: %t", why, shut)
			}
		})
	}
}

// A file below a directory that no other user may enter is out of reach, and so is a link that leads there.
func TestExposed(t *testing.T) {
	self := uint32(os.Geteuid())
	dir, err := os.MkdirTemp("/tmp", "exposed-") // the way to t.TempDir may be shut
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	open, below, link := filepath.Join(dir, "open"), filepath.Join(dir, "open", "below"), filepath.Join(dir, "link")
	must(t, os.MkdirAll(below, 0o755))
	must(t, os.Chmod(open, 0o777))
	must(t, os.Symlink(below, link))
	for mode, want := range map[os.FileMode]string{0o700: "", 0o711: open + " has mode drwxrwxrwx"} {
		must(t, os.Chmod(dir, mode))
		for _, path := range []string{open, below, link} {
			if why, err := exposed(path, self); why != want || err != nil {
				t.Errorf("%s, where %s has mode %s: %q, %v; want %q", path, dir, mode, why, err, want)
			}
		}
	}
	if why, err := exposed(dir, self); why != "" || err != nil {
		t.Errorf("a directory in /tmp: %q, %v", why, err)
	}
	if _, err := exposed(filepath.Join(dir, "none"), self); err == nil {
		t.Error("a directory that is missing is not exposed")
	}
}
