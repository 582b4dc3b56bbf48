// Package setting gives a program one table of its settings, which flags, environment variables and a file can set.
//
//	flags     --statusPort=15021        ┐
//	variables PILOTLIGHT_STATUS_PORT    ├─▶ Table.Resolve ─▶ values in their places, Origins, every fault at once
//	file      statusPort: 15021 (YAML)  ┘       first of: flag, variable, file, default
//
// Each source is text until the setting's Kind parses it, so that a fault has the same form for every source. The package
// does no I/O: its callers read the environment and the file. It does not depend on the meaning of a setting.
package setting
