package main

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// Each setting has a variable of its own: a value for one changes no other.
func TestEverySettingHasItsPlace(t *testing.T) {
	samples := map[string]string{
		"text": "x", "path": "/x", "address": "127.0.0.1:1", "duration": "7s", "int": "7", "number": "7.5", "bool": "true", "URL": "http://h:1",
		"list": "a,b", "pairs": "a=b", "name": "a/b", "names": "a/b,c/d", "issuers": "lets=https://a.test/dir,email=ops@a.test", "ports": "81,444", "logLevel": "warn", "logFormat": "json",
	}
	lines := func(given ...setting.Given) []string {
		t.Helper()
		table := newSettings().table()
		origins, faults := table.Resolve(setting.Sources{Flags: append([]setting.Given{{Name: "configDir", Text: "dir"}}, given...)})
		var out strings.Builder
		if err := table.Effective(&out, origins); err != nil || faults.ErrorOrNil() != nil {
			t.Fatal(err, faults)
		}
		return strings.Split(out.String(), "\n")
	}
	before := lines()
	for i, s := range newSettings().table().Settings {
		text := samples[s.Kind.Type]
		if s.Kind.Type == "word" {
			text = samples[s.Name]
		}
		for j, line := range lines(setting.Given{Name: s.Name, Text: text}) {
			fields := strings.Fields(line)
			switch {
			case j == i && (fields[1] != text || !strings.HasSuffix(line, "flag --"+s.Name)):
				t.Errorf("--%s %s: got %q", s.Name, text, line)
			case j != i && strings.Join(fields, " ") != strings.Join(strings.Fields(before[j]), " "):
				t.Errorf("--%s %s changes another setting: %q was %q", s.Name, text, line, before[j])
			}
		}
	}
}
