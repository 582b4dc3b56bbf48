package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what the toolchain wrote into the binary.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, "-dirty" with changes beside it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: noArgs}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		info, _ := debug.ReadBuildInfo() // nil without modules, which this is not built without
		v := versionOf(info)
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), v)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "discovery %s (%s, %s)\n", v.Version, v.Go, v.Platform)
		return err
	}
	return cmd
}

func versionOf(info *debug.BuildInfo) version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	v.Revision = settings["vcs.revision"]
	if settings["vcs.modified"] == "true" {
		v.Revision += "-dirty"
	}
	return v
}
