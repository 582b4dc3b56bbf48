package envoy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// files are the files of an epoch in its slot while it runs.
type files struct {
	bootstrap string
	yaml      bool     // the bootstrap is YAML, not JSON; Envoy recognizes the format by the file's ending
	memory    *os.File // the bootstrap, where no file could be written; else nil
	admin     string   // a Unix socket, mode 0600, which Envoy creates
	gate      string   // JSON of static resources for Envoy to add; empty for none
	records   string   // JSON of a cluster for Envoy to add; empty for none
}

// filesOf names the files of a process: of an epoch, or trialName.
func filesOf(in room, name, format string) files {
	return files{
		bootstrap: filepath.Join(in.dir, "envoy-"+name+"."+format),
		yaml:      format != "json",
		admin:     in.socket("admin-" + name),
	}
}

const trialName = "trial"

// epochName is the name of an epoch in those of its files.
func epochName(epoch int) string { return fmt.Sprintf("rev%d", epoch) }

const (
	maxEpoch = 999_999 // room for the number of any epoch
)

// check returns an error if Envoy could not bind the admin's socket.
func (f files) check() error {
	if n := len(f.admin); n > hotrestart.MaxSocketPath {
		return fmt.Errorf("admin socket %s: its path has %d bytes, and at most %d fit: use a shorter --configPath", f.admin, n, hotrestart.MaxSocketPath)
	}
	return nil
}

// adminPaths are the paths of Envoy's admin that only read, and those that the agent and its front use. Paths that end Envoy,
// change its runtime or profile it are not among them. Envoy matches path and query.
const adminPaths = `/(certs|clusters|config_dump|drain_listeners|help|hot_restart_version|init_dump|listeners|logging|memory|ready|` +
	`reopen_logs|reset_counters|runtime|server_info|stats(/prometheus)?)?(\?.*)?`

// adminJSON returns the epoch's own admin, which replaces the admin of a bootstrap: two epochs cannot share one
// address.
func (f files) adminJSON() json.RawMessage {
	path, _ := json.Marshal(f.admin) // strings
	paths, _ := json.Marshal(adminPaths)
	return fmt.Appendf(nil, `{"address":{"pipe":{"path":%s,"mode":384}},"allow_paths":[{"safe_regex":{"regex":%s}}]}`, path, paths)
}

// overlay returns what Envoy is to merge over the bootstrap: the admin if it is YAML, where of two forms of an address the later one counts,
// the gate, and the cluster of records, since Envoy appends to lists. It is empty for nothing.
func (f files) overlay() string {
	var parts []string
	if f.yaml {
		parts = append(parts, `"admin":`+string(f.adminJSON()))
	}
	if resources := f.resources(); resources != "" {
		parts = append(parts, `"static_resources":`+resources)
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// withAdmin puts the epoch's admin into a JSON bootstrap. A YAML bootstrap stays as it is, since Envoy merges the admin
// into it. A text that is no valid JSON also stays as it is, and Envoy refuses it.
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

// withoutKeyAdmin returns the text after the opening brace of an object that has members, none of them named admin for
// sure. It saves decoding and encoding it at a start. A key may be written with \u escapes, so a text that has any is not
// sure.
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

// writeCheck writes a bootstrap that is to be checked into a new file with a unique name, since a canceled check may
// remove its file after the next check has begun. Only the owner can read the file.
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

// writeFile replaces path by rename, so that no reader sees half of it. Only its owner can read it, since a bootstrap
// may hold secrets. It is not synced: after a crash of the machine it is written again.
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

// recordsName is the cluster to which listeners send records of failed requests. It is at the agent's socket.
const recordsName = "agent_records"

// recordsCluster bounds what Envoy holds for an agent that does not read: 64 KB in the stream and as much in each worker's buffer,
// beyond which records are dropped and counted. Without these limits it grew by 280 bytes a record (measured on 1.40).
const recordsCluster = `{"name":"NAME","connect_timeout":"1s","per_connection_buffer_limit_bytes":65536,` +
	`"load_assignment":{"cluster_name":"NAME","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"pipe":{"path":SOCKET}}}}]}]},` +
	`"typed_extension_protocol_options":{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{` +
	`"@type":"type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions","explicit_http_config":{` +
	`"http2_protocol_options":{"initial_stream_window_size":65536,"initial_connection_window_size":65536}}}}}`

// recordsFor returns the cluster for Envoy to add to a bootstrap that names it; empty if none is to be added. The bootstrap of a role
// has it, and one of the user's own cannot know the socket's name. socket is empty where nothing is to be added.
func recordsFor(socket, bootstrap string, o Options) string {
	own := slices.ContainsFunc(o.Extra, func(arg string) bool { return strings.HasPrefix(arg, "--config-yaml") })
	if socket == "" || own || !strings.Contains(bootstrap, recordsName) || definesRecords(bootstrap) {
		return ""
	}
	path, _ := json.Marshal(socket) // a string
	return strings.NewReplacer("NAME", recordsName, "SOCKET", string(path)).Replace(recordsCluster)
}

// definesRecords reports whether a bootstrap has the cluster itself, such as one that `agent bootstrap` has printed: Envoy refuses a second one.
func definesRecords(bootstrap string) bool {
	type resources struct {
		Clusters []struct{ Name string }
	}
	var keys struct {
		Snake resources `yaml:"static_resources"`
		Camel resources `yaml:"staticResources"`
	}
	_ = yaml.Unmarshal([]byte(bootstrap), &keys) // JSON too; what is malformed is refused by Envoy
	return slices.ContainsFunc(append(keys.Snake.Clusters, keys.Camel.Clusters...), func(c struct{ Name string }) bool { return c.Name == recordsName })
}

// resources returns the static resources for Envoy to merge into the bootstrap; empty for none.
func (f files) resources() string {
	switch {
	case f.records == "":
		return f.gate
	case f.gate == "":
		return `{"clusters":[` + f.records + `]}`
	}
	return strings.Replace(f.gate, `"clusters":[`, `"clusters":[`+f.records+`,`, 1)
}
