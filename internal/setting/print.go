package setting

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Effective writes a line for each setting: its value and where the value came from.
func (t Table) Effective(w io.Writer, origins Origins) error {
	var rows [][]string
	for _, s := range t.Settings {
		from := string(Default)
		if o := origins[s.Name]; o.Set() {
			from = string(o.Source) + " " + o.Name
		} else if o.Source == "" && o.Name != "" {
			from = o.Name // the value was computed
		}
		rows = append(rows, []string{s.Name, orEmpty(masked(s.Kind.show())), from})
	}
	return WriteColumns(w, 2, rows)
}

// masked replaces the passwords of URLs, as net/url's Redacted does.
func masked(value string) string {
	return regexp.MustCompile(`(://[^/?#,\s@:]*):[^/?#,\s]*@`).ReplaceAllString(value, "$1:xxxxx@")
}

func orEmpty(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// Derive sets a setting that was not given to a computed value, and records how it was computed. A value that was given
// stays. The setting must allow the value.
func (t Table) Derive(o Origins, name, value, how string) error {
	if o[name].Set() {
		return nil
	}
	for _, s := range t.Settings {
		if s.Name != name {
			continue
		}
		if err := s.Kind.parse(value); err != nil {
			return s.fault(Origin{Name: how}, value)
		}
		o[name] = Origin{Name: how}
		return nil
	}
	return fmt.Errorf("no setting is called %s", name)
}

// WriteColumns writes a line for each row, with cells that are aligned and gap blanks or more apart. Package text/tabwriter would add
// 15 KB to a program.
func WriteColumns(w io.Writer, gap int, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var out strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			out.WriteString(cell)
			if i < len(row)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}
