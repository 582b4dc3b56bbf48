package config

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestScalar(t *testing.T) {
	for text, want := range map[string]string{
		"y": `"y"`, "n": `"n"`, "on": `"on"`, "no": `"no"`, "Yes": `"Yes"`,
		"true": "true", "False": "false", "TRUE": "true", "tRue": `"tRue"`, "'true'": `"true"`,
		"": "null", "~": "null", "null": "null", "Null": "null", `""`: `""`, "nil": `"nil"`,
		"0": "0", "-0": "-0", "007": "7", "+12": "12", "-12": "-12", "0777": "777", "0o17": "15", "0x1F": "31", "-0x1F": `"-0x1F"`,
		"99999999999999999999": "99999999999999999999", "1_000": `"1_000"`, "0b11": `"0b11"`,
		"1.5": "1.5", ".5": "0.5", "-.5": "-0.5", "1.": "1.0", "1e3": "1.0e3", "1E+3": "1.0e+3", "1.2.3": `"1.2.3"`,
		".inf": `"Infinity"`, "-.INF": `"-Infinity"`, ".nan": `"NaN"`,
		"2026-01-01": `"2026-01-01"`, "12:30:45": `"12:30:45"`, "10s": `"10s"`,
		"!!str 5": `"5"`, "!!int '5'": "5", "|\n  5\n": `"5\n"`, `"\u00e9\t<"`: "\"é\\t\\u003c\"",
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte("a: "+text), &doc); err != nil {
			t.Fatal(err)
		}
		if got := scalar(doc.Content[0].Content[1]); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
