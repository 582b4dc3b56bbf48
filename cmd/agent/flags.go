package main

import (
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// flags are those of the settings, and those that mean nothing any more.
type flags struct {
	setting.Flags
	retired setting.Flags
}

func (f *flags) register(set *pflag.FlagSet, table setting.Table) {
	f.Register(set, table)
	for _, r := range retired {
		f.retired.RegisterHidden(set, r.name, r.instead, r.bare)
	}
}
