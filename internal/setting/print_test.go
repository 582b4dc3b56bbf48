package setting

import (
	"strings"
	"testing"
)

func TestPasswordsOfURLsAreMasked(t *testing.T) {
	for value, want := range map[string]string{
		"http://user:secret@host:8500":                     "http://user:xxxxx@host:8500",
		"https://user:se@cr:et@host/eureka":                "https://user:xxxxx@host/eureka",
		"http://a:1@one:8761/eureka,http://b:2@two/eureka": "http://a:xxxxx@one:8761/eureka,http://b:xxxxx@two/eureka",
		"http://:secret@host":                              "http://:xxxxx@host",
		"nats://user:secret@host:4222":                     "nats://user:xxxxx@host:4222",
		"http://user@host:8500":                            "http://user@host:8500",
		"http://host:8500/a:b@c":                           "http://host:8500/a:b@c",
		"http://host:8500?a=b:c@d":                         "http://host:8500?a=b:c@d",
		":15010":                                           ":15010",
	} {
		if got := masked(value); got != want {
			t.Errorf("%s: printed is %s, want %s", value, got, want)
		}
	}
}

func TestWriteColumns(t *testing.T) {
	var out strings.Builder
	rows := [][]string{{"a", "bb", "last"}, {"äöü", "", "longer than all"}, {"one"}, {"x", "end"}}
	if err := WriteColumns(&out, 2, rows); err != nil {
		t.Fatal(err)
	}
	want := "a    bb  last\näöü      longer than all\none\nx    end\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
