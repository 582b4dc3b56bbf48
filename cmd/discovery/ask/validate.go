package ask

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/discovery/debugclient"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// CheckLive refuses flags that contradict live, the flag with which a running discovery judges files: without it those of a Way, with it all but
// those and the given ones.
func CheckLive(cmd *cobra.Command, live bool, both ...string) (err error) {
	way := []string{"httpAddr", "discoveryAddress", "tlsCertFile", "tlsKeyFile", "caCertFile", "discoveryName"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(both, f.Name) || err != nil:
		case slices.Contains(way, f.Name) && !live:
			err = fmt.Errorf("--%s without --live: no discovery is asked", f.Name)
		case !slices.Contains(way, f.Name) && live:
			err = fmt.Errorf("--%s with --live: a running discovery has its own", f.Name)
		}
	})
	return setting.Usage("discovery", err)
}

// Validate has files judged by a running discovery.
func Validate(cmd *cobra.Command, way *Way, files []validation.Text) (v validation.Verdict, err error) {
	at, err := way.at(cmd)
	if err != nil {
		return v, err
	}
	text, err := validation.Sent(files)
	if err == nil {
		text, err = debugclient.Validate(cmd.Context(), at, text)
	}
	if err == nil {
		v, err = validation.ReadLive(text)
	}
	if err != nil {
		return v, fmt.Errorf("ask discovery to validate: %w", err)
	}
	return v, nil
}
