package main

import (
	"errors"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// flags collects what flags were given, as text: the table parses it together with all other sources.
type flags struct {
	given   []setting.Given
	retired []setting.Given
}

// register makes a flag of each setting, and one that nobody sees of each that means nothing any more.
func (f *flags) register(set *pflag.FlagSet, table setting.Table) {
	set.SortFlags = false
	for _, s := range table.Settings {
		text := &flagText{name: s.Name, kind: s.Kind.Type, value: s.Default, to: &f.given}
		set.VarPF(text, s.Name, "", s.Help+s.Kind.Hint()).NoOptDefVal = s.Kind.WithoutText()
	}
	for _, r := range retired {
		flag := set.VarPF(&flagText{name: r.name, kind: "retired", to: &f.retired}, r.name, "", r.instead)
		flag.Hidden = true
		if r.bare {
			flag.NoOptDefVal = "true"
		}
	}
}

// flagText is a flag whose text is taken as it is.
type flagText struct {
	name, kind, value string
	to                *[]setting.Given
}

func (f *flagText) String() string { return f.value }
func (f *flagText) Type() string   { return f.kind }

func (f *flagText) Set(text string) error {
	*f.to = append(*f.to, setting.Given{Name: f.name, Text: text})
	return nil
}

// explain says of an unknown flag which known one is near.
func explain(table setting.Table, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		err = table.Unknown("", "--", unknown.GetSpecifiedName())
	}
	return usage(multierror.Append(nil, err))
}
