package envoy

import (
	"cmp"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// room is a directory for sockets. Their names end in a token of 130 random bits, new at each start of the agent: the
// configuration from discovery may name any socket as an endpoint, and Envoy has the rights to connect to all of them.
// The token is in Envoy's bootstrap and in the listing of the directory, nowhere else.
type room struct{ dir, token string }

// newToken returns a token of 26 letters and digits.
func newToken() string { return rand.Text() }

// tokenPattern is a regular expression for a token.
const tokenPattern = `[A-Z2-7]{26}`

func (r room) socket(name string) string { return filepath.Join(r.dir, name+"-"+r.token+".sock") }

// Socket returns the path of a socket of the agent itself in the slot.
func (s *Slot) Socket(name string) string { return room{s.dir, s.token}.socket(name) }

// Private returns the path of the slot's directory where configPath is open to others; false where it is not. No other user can
// lead that path elsewhere: it goes through a descriptor.
func (s *Slot) Private() (dir string, private bool) { return s.dir, s.base != nil }

// SocketPattern matches the JSON text of the path of a socket by the name that Slot.Socket was given.
func SocketPattern(name string) *regexp.Regexp {
	return regexp.MustCompile(`"[^"]*/` + regexp.QuoteMeta(name) + `-` + tokenPattern + `\.sock"`)
}

// FindSocket returns the path of a socket of the first agent of configPath, by the name that Slot.Socket was given; empty
// if there is none. The caller must have the right to list the slot: see FindSlot.
func FindSocket(configPath, name string) string {
	dir := FindSlot(configPath)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		token, found := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".sock"), name+"-")
		return !found || len(token) != len(newToken()) || e.Type() != fs.ModeSocket
	})
	if len(entries) == 0 {
		return ""
	}
	newest := slices.MaxFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(changedAt(a), changedAt(b)) })
	path := filepath.Join(dir, newest.Name())
	if len(path) <= hotrestart.MaxSocketPath {
		return path
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // stays open, for the path
	if err != nil {
		return ""
	}
	return filepath.Join("/dev/fd", strconv.Itoa(fd), newest.Name())
}

func changedAt(e fs.DirEntry) int64 {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}
