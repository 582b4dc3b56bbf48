package setting

import (
	"strings"
	"testing"
	"time"
)

type values struct {
	port    int
	drain   time.Duration
	address string
	level   string
	args    []string
	runtime map[string]string
	memory  int64
	exit    bool
	ip      string
}

func tableOf(v *values) Table {
	return Table{Prefix: "PILOTLIGHT_", Settings: []Setting{
		{Name: "statusPort", Default: "15020", Kind: Port(&v.port).Such("15020")},
		{Name: "drainDuration", Default: "45s", Kind: Seconds(&v.drain, time.Second, time.Hour)},
		{Name: "discoveryAddress", Default: "istio-pilot:15010", Kind: Address(&v.address, false)},
		{Name: "logLevel", Default: "info", Kind: OneOf(&v.level, "debug", "info")},
		{Name: "envoyArguments", Kind: Words(&v.args)},
		{Name: "runtimeValues", Kind: Pairs(&v.runtime)},
		{Name: "memoryLimit", Default: "0", Kind: Bytes(&v.memory)},
		{Name: "exitOnZeroActiveConnections", Default: "true", Kind: Bool(&v.exit)},
		{Name: "ip", Also: []string{"INSTANCE_IP"}, Kind: Text(&v.ip, "an address")},
	}}
}

func TestTheFirstSourceCounts(t *testing.T) {
	flag := []Given{{"statusPort", "1"}, {"statusPort", "2"}}
	env := map[string]string{"PILOTLIGHT_STATUS_PORT": "3"}
	file := []byte("# ours\ndrainDuration: 1m\nstatusPort: 4\n")
	for _, test := range []struct {
		name    string
		sources Sources
		want    int
		origin  Origin
	}{
		{"a flag, the last of it", Sources{Flags: flag, Env: env, File: file, FileAt: "a.yaml"}, 2, Origin{"--statusPort", Flag}},
		{"a variable", Sources{Env: env, File: file, FileAt: "a.yaml"}, 3, Origin{"PILOTLIGHT_STATUS_PORT", Variable}},
		{"the file", Sources{File: file, FileAt: "a.yaml"}, 4, Origin{"a.yaml:3: statusPort", File}},
		{"the default", Sources{}, 15020, Origin{"--statusPort", Default}},
		{"an empty variable is none", Sources{Env: map[string]string{"PILOTLIGHT_STATUS_PORT": ""}}, 15020, Origin{"--statusPort", Default}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v values
			origins, faults := tableOf(&v).Resolve(test.sources)
			if faults.ErrorOrNil() != nil || v.port != test.want || origins["statusPort"] != test.origin {
				t.Errorf("got %d from %+v, %v; want %d from %+v", v.port, origins["statusPort"], faults, test.want, test.origin)
			}
		})
	}
}

func TestValues(t *testing.T) {
	var v values
	_, faults := tableOf(&v).Resolve(Sources{FileAt: "a.yaml", Env: map[string]string{"INSTANCE_IP": "10.0.0.1"}, File: []byte(`
drainDuration: 1m30s
discoveryAddress: "[::1]:15010"
envoyArguments: [--component-log-level, "upstream:debug"]
runtimeValues: {a.b: 1, c: true}
memoryLimit: 256Mi
exitOnZeroActiveConnections: false
logLevel:
`)})
	if faults.ErrorOrNil() != nil {
		t.Fatal(faults)
	}
	if v.drain != 90*time.Second || v.address != "[::1]:15010" || strings.Join(v.args, "|") != "--component-log-level|upstream:debug" ||
		v.runtime["a.b"] != "1" || v.runtime["c"] != "true" || v.memory != 256<<20 || v.exit || v.ip != "10.0.0.1" || v.level != "info" {
		t.Errorf("got %+v", v)
	}
}

// All faults are reported together, by the names under which the values were given.
func TestFaults(t *testing.T) {
	var v values
	_, faults := tableOf(&v).Resolve(Sources{
		Flags: []Given{{"statusPort", "70000"}, {"discoveryAddress", "pilot"}, {"exitOnZeroActiveConnections", "yes"}},
		Env: map[string]string{
			"PILOTLIGHT_DRAIN_DURATION": "1500ms", "PILOTLIGHT_STATSU_PORT": "1", "PILOTLIGHT_MEMORY_LIMIT": "much memory",
			"PILOTLIGHT_SERVICE_HOST": "10.0.0.1", "PILOTLIGHT_PORT_80_TCP_ADDR": "10.0.0.1", // of a Kubernetes service
		},
		FileAt: "a.yaml", File: []byte("logLevel: loud\nstatusport: 1\nruntimeValues: a\nip: {a: [1]}\nlogLevel: info\n"),
	})
	want := []string{
		"a.yaml:2: statusport: no such setting, did you mean statusPort?",
		"a.yaml:4: ip: want a value, a list of values or a mapping of names to values",
		"a.yaml:5: logLevel: given twice, first in line 1",
		"PILOTLIGHT_STATSU_PORT: no such variable, did you mean PILOTLIGHT_STATUS_PORT?",
		"--statusPort 70000: want 1 to 65535, or 0 for none, such as 15020",
		"PILOTLIGHT_DRAIN_DURATION 1500ms: want whole seconds, 1s to 1h",
		"--discoveryAddress pilot: want host:port, such as pilot:15010 or [::1]:15010",
		"a.yaml:1: logLevel loud: want one of debug, info",
		"a.yaml:3: runtimeValues a: want name=value pairs parted by commas",
		"PILOTLIGHT_MEMORY_LIMIT much memory: want a number of bytes, with Ki, Mi, Gi, k, M or G after it, such as 256Mi",
		"--exitOnZeroActiveConnections yes: want true or false",
	}
	var got []string
	for _, err := range faults.Errors {
		got = append(got, err.Error())
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"a: [": "a.yaml: yaml: ", "- a\n": "a.yaml: line 1: want a mapping", "a: 1\n---\nb: 2\n": "a.yaml: line 2: a second document",
		"word": "a.yaml: line 1: want a mapping",
	} {
		var v values
		if _, faults := tableOf(&v).Resolve(Sources{File: []byte(text), FileAt: "a.yaml"}); !strings.Contains(faults.Error(), want) {
			t.Errorf("%q: got %v, want %s…", text, faults, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		var v values
		if _, faults := tableOf(&v).Resolve(Sources{File: []byte(text), FileAt: "a.yaml"}); faults.ErrorOrNil() != nil {
			t.Errorf("%q: got %v, want no fault", text, faults)
		}
	}
}

func TestEffective(t *testing.T) {
	var v values
	table := tableOf(&v)
	origins, _ := table.Resolve(Sources{Flags: []Given{{"statusPort", "1"}}, FileAt: "a.yaml", File: []byte("memoryLimit: 1Gi")})
	for _, d := range [][3]string{{"ip", "10.0.0.7", "the first private address"}, {"statusPort", "2", "nothing: a flag gave it"}} {
		if err := table.Derive(origins, d[0], d[1], d[2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Derive(origins, "drainDuration", "soon", "a guess"); err == nil || !strings.Contains(err.Error(), "a guess soon: want ") {
		t.Errorf("a value that is not allowed: %v, want a fault that names it", err)
	}
	if err := table.Derive(origins, "nosuch", "1", "a guess"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("no such setting: %v, want a fault that names it", err)
	}
	var b strings.Builder
	if err := table.Effective(&b, origins); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"statusPort                   1                  flag --statusPort\n",
		"drainDuration                45s                default\n",
		"envoyArguments               \"\"                 default\n",
		"memoryLimit                  1Gi                file a.yaml:1: memoryLimit\n",
		"ip                           10.0.0.7           the first private address\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%swant a line %q", b.String(), want)
		}
	}
}

// For any content of a file, a fault names the file, and nothing panics.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"statusPort: 1", "runtimeValues: {a: b}", "envoyArguments: [a, b]", "a: &x [*x]", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v values
		_, faults := tableOf(&v).Resolve(Sources{File: data, FileAt: "a.yaml"})
		for _, err := range faults.WrappedErrors() {
			if !strings.HasPrefix(err.Error(), "a.yaml:") {
				t.Errorf("%v does not name the file", err)
			}
		}
	})
}

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
