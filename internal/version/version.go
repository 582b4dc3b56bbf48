// Package version says which build a binary is, from what the Go linker recorded in it.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Info describes a build.
type Info struct {
	Version  string `json:"version"`            // of the module: a tag, a pseudo-version, or "(devel)"
	Revision string `json:"revision,omitempty"` // the commit, where the build saw one
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the running binary's build.
func Get() Info {
	info := Info{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			info.Revision = setting.Value
		}
	}
	return info
}

// String is one line for people.
func (i Info) String() string {
	if i.Revision == "" {
		return fmt.Sprintf("%s %s %s", i.Version, i.Go, i.Platform)
	}
	return fmt.Sprintf("%s (%s) %s %s", i.Version, i.Revision, i.Go, i.Platform)
}
