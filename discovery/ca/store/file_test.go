package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// entry is a file as judgeOne sees it.
type entry struct {
	fs.FileInfo
	mode         fs.FileMode
	owner, group int
}

func (e entry) Mode() fs.FileMode { return e.mode }
func (e entry) Sys() any          { return &syscall.Stat_t{Uid: uint32(e.owner), Gid: uint32(e.group)} }

// What leads to an authority belongs to root or to this user, and nobody else can replace or read it.
func TestOwners(t *testing.T) {
	me, mine := os.Geteuid(), os.Getegid()
	const other = 4242
	for name, test := range map[string]struct {
		e            entry
		last, secret bool
		want         string
	}{
		"a parent of root":                  {entry{mode: fs.ModeDir | 0o755}, false, false, ""},
		"a parent of this user":             {entry{mode: fs.ModeDir | 0o755, owner: me}, false, false, ""},
		"a parent of another user":          {entry{mode: fs.ModeDir | 0o700, owner: other}, false, false, "/ca: /at: belongs to user 4242"},
		"a parent that a group writes":      {entry{mode: fs.ModeDir | 0o775, group: mine}, false, false, "has mode 0775"},
		"a sticky parent":                   {entry{mode: fs.ModeDir | fs.ModeSticky | 0o777}, false, false, ""},
		"a sticky parent of another user":   {entry{mode: fs.ModeDir | fs.ModeSticky | 0o777, owner: other}, false, false, "belongs to user 4242"},
		"a link of another user":            {entry{mode: fs.ModeSymlink | 0o777, owner: other}, false, false, "belongs to user 4242"},
		"a link":                            {entry{mode: fs.ModeSymlink | 0o777, owner: me}, true, true, ""},
		"a sticky directory that all write": {entry{mode: fs.ModeDir | fs.ModeSticky | 0o777}, true, false, "has mode 0777"},
		"a certificate that all read":       {entry{mode: 0o644}, true, false, ""},
		"a certificate that a group writes": {entry{mode: 0o664}, true, false, "has mode 0664"},
		"a key of another user":             {entry{mode: 0o600, owner: other}, true, true, "belongs to user 4242"},
		"a key that its group reads":        {entry{mode: 0o640, group: mine}, true, true, ""},
		"a key that another group reads":    {entry{mode: 0o640, group: other}, true, true, "the group 4242 can use the key"},
		"a key that all read":               {entry{mode: 0o604}, true, true, "every user can use the key"},
		"a key that a group writes":         {entry{mode: 0o620, group: mine}, true, true, "has mode 0620"},
	} {
		err := judgeOne("/ca", "/at", test.e, test.last, test.secret)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Each directory on the way counts, also those that links lead through.
func TestWays(t *testing.T) {
	root := t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"good/ca", "open/ca"} {
		check(t, os.MkdirAll(in(dir), 0o700))
	}
	check(t, os.Chmod(in("open"), 0o777))
	for link, to := range map[string]string{
		"relative": "good/ca", "absolute": in("good/ca"), "up": "good/../good/ca/.", "through": "open/back", "open/back": "../good/ca", "round": "round", "bad": in("open/ca"),
	} {
		check(t, os.Symlink(to, in(link)))
	}
	for path, want := range map[string]string{
		"good/ca": "", "relative": "", "absolute": "", "up": "", "good/../relative": "",
		"open/ca": "has mode 0777", "bad": "has mode 0777", "through": "has mode 0777", "round": "more than 40 links", "none": "no such file",
	} {
		err := judge(in(path), false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// An authority that is where the default was before is not left behind.
func TestMoved(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	check(t, Moved(from, to))
	_, _, err := Open(from, time.Now())
	check(t, err)
	if err := Moved(from, to); err == nil || !strings.Contains(err.Error(), "mv -T "+from+" "+to) {
		t.Errorf("%v, want the command that moves it", err)
	}
	check(t, Moved(filepath.Join(from, ca.KeyFile), to)) // no directory
	_, _, err = Open(to, time.Now())
	check(t, err)
	check(t, Moved(from, to))
}
