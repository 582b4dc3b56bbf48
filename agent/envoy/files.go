package envoy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotlight/pilotlight/agent"
)

// files are what an epoch leaves in its slot while it lives.
type files struct {
	bootstrap string
	yaml      bool     // the bootstrap's format, which Envoy tells by the ending
	memory    *os.File // the bootstrap, where no file could be written; else nil
	admin     string   // a Unix socket, mode 0600; Envoy makes it
}

// filesOf names the files of an epoch.
func filesOf(dir string, epoch int, format string) files {
	return files{
		bootstrap: filepath.Join(dir, fmt.Sprintf("envoy-rev%d.%s", epoch, format)),
		yaml:      format != "json",
		admin:     filepath.Join(dir, fmt.Sprintf("admin-rev%d.sock", epoch)),
	}
}

const (
	maxSocketPath = 107     // what sockaddr_un holds, less the terminating NUL
	maxEpoch      = 999_999 // room for the number of any epoch
)

// check refuses what Envoy could not bind.
func (f files) check() error {
	if n := len(f.admin); n > maxSocketPath {
		return fmt.Errorf("admin socket %s: its path has %d bytes, and at most %d fit: use a shorter --configPath", f.admin, n, maxSocketPath)
	}
	return nil
}

// adminPaths are the paths of Envoy's admin that only read, and those that the agent and its front use. Paths that end Envoy,
// change its runtime or profile it are not among them. Envoy matches path and query.
const adminPaths = `/(certs|clusters|config_dump|drain_listeners|help|hot_restart_version|init_dump|listeners|logging|memory|ready|` +
	`reopen_logs|reset_counters|runtime|server_info|stats(/prometheus)?)?(\?.*)?`

// adminJSON is the epoch's own admin, in the place of what a bootstrap says: two epochs would be in each other's way.
func (f files) adminJSON() json.RawMessage {
	path, _ := json.Marshal(f.admin) // strings
	paths, _ := json.Marshal(adminPaths)
	return fmt.Appendf(nil, `{"address":{"pipe":{"path":%s,"mode":384}},"allow_paths":[{"safe_regex":{"regex":%s}}]}`, path, paths)
}

// adminYAML is the same to be merged by Envoy over a YAML bootstrap: of an address's two forms the later one stays.
func (f files) adminYAML() string { return fmt.Sprintf(`{"admin":%s}`, f.adminJSON()) }

// withAdmin puts the epoch's admin into a bootstrap. Into YAML Envoy merges it. A text that is no JSON stays as it is,
// for Envoy to refuse.
func (f files) withAdmin(bootstrap string) string {
	if f.yaml {
		return bootstrap
	}
	if members, sure := withoutKeyAdmin(bootstrap); sure && json.Valid([]byte(bootstrap)) {
		return fmt.Sprintf(`{"admin": %s,%s`, f.adminJSON(), members)
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(bootstrap), &keys) != nil || keys == nil {
		return bootstrap
	}
	keys["admin"] = f.adminJSON()
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return bootstrap
	}
	return string(text)
}

// withoutKeyAdmin returns what follows the brace of an object that has members, and surely none that is called admin: a start
// does not wait until it is parsed. A key may be written with \u, so a text that has any is not sure.
func withoutKeyAdmin(bootstrap string) (members string, sure bool) {
	members, object := strings.CutPrefix(strings.TrimSpace(bootstrap), "{")
	if !object || !strings.HasPrefix(strings.TrimSpace(members), `"`) || strings.Contains(members, `\u`) {
		return "", false
	}
	for rest, found := members, true; found; {
		if _, rest, found = strings.Cut(rest, `"admin"`); strings.HasPrefix(strings.TrimSpace(rest), ":") {
			return "", false
		}
	}
	return members, true
}

func (f files) remove() error {
	paths := []string{f.bootstrap, f.admin}
	if f.memory != nil {
		f.memory.Close()
		paths = paths[1:]
	}
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// writeCheck writes a bootstrap that is to be checked into a file of its own: a check that is given up may still remove its
// own when the next one has begun. Only the owner reads it.
func writeCheck(dir string, config agent.Config) (path string, err error) {
	file, err := os.CreateTemp(dir, "envoy-check-*."+config.Format) // 0600
	if err != nil {
		return "", fmt.Errorf("write the bootstrap to check: %w", err)
	}
	_, err = file.WriteString(config.Bootstrap)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return "", fmt.Errorf("write the bootstrap to check: %w", err)
	}
	return file.Name(), nil
}

// writeFile replaces path by rename, so that no reader sees half of it. It is readable by its owner only, since a
// bootstrap may hold secrets. It is not synced: after a crash of the machine it is written anew.
func writeFile(path, text string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".envoy-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	_, err = temp.WriteString(text)
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}
