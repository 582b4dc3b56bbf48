package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

var release, revision string // set by the linker or empty

// Info describes a build.
type Info struct {
	Version  string `json:"version"`            // of the module: a tag, a pseudo-version, or "(devel)"
	Revision string `json:"revision,omitempty"` // the commit, if the build recorded one
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the running binary's build.
func Get() Info {
	info := Info{Version: cmp.Or(release, "(devel)"), Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.Version = cmp.Or(release, build.Main.Version, info.Version)
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" && info.Revision == "" {
			info.Revision = setting.Value
		}
	}
	return info
}

// String returns one line for people.
func (i Info) String() string {
	if i.Revision == "" {
		return fmt.Sprintf("%s %s %s", i.Version, i.Go, i.Platform)
	}
	return fmt.Sprintf("%s (%s) %s %s", i.Version, i.Revision, i.Go, i.Platform)
}
