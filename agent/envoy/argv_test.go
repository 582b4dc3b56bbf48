package envoy

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

func TestArgv(t *testing.T) {
	usual := Options{LogLevel: "warning", DrainTime: 45 * time.Second, ParentShutdown: time.Minute}
	all := usual
	all.Concurrency, all.ComponentLogLevel, all.Extra = 2, "upstream:debug", []string{"--skip-deprecated-logs"}
	ownFlush := usual
	ownFlush.Extra = []string{"--file-flush-interval-msec=50"}
	const (
		begins = "--config-path /c/envoy-rev4.json "
		common = "--drain-time-s 45 --drain-strategy immediate --parent-shutdown-time-s 60 --log-level warning --log-format " + LogFormat
		flush  = " --file-flush-interval-msec 1000"
	)
	for _, test := range []struct {
		name    string
		options Options
		family  hotrestart.BaseID
		want    string
	}{
		{"without hot restart", usual, 0, begins + "--disable-hot-restart " + common + flush},
		{"with hot restart", usual, 1234567, begins + "--base-id 1234567 --restart-epoch 3 --socket-path /c/hot-TOKEN --socket-mode 600 --skip-hot-restart-parent-stats " + common + flush},
		{"all", all, 0, begins + "--disable-hot-restart " + common + " --component-log-level upstream:debug --concurrency 2" + flush + " --skip-deprecated-logs"},
		{"with its own interval", ownFlush, 0, begins + "--disable-hot-restart " + common + " --file-flush-interval-msec=50"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(argv(test.options, filesOf(room{"/c", "TOKEN"}, "rev4", "json"), hotrestart.Sockets{Dir: "/c", Token: "TOKEN", BaseID: test.family}, 3), " "); got != test.want {
				t.Errorf("argv:\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestChangedArguments(t *testing.T) {
	usual := Options{LogLevel: "warning", DrainTime: 45 * time.Second, ParentShutdown: time.Minute}
	line := argv(usual, filesOf(room{"/c", "TOKEN"}, "rev4", "json"), hotrestart.Sockets{}, 3)
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"nothing", func(*Options) {}, ""},
		{"a value", func(o *Options) { o.DrainTime = time.Minute }, "--drain-time-s 60, before 45"},
		{"two", func(o *Options) { o.LogLevel, o.ParentShutdown = "info", 2*time.Minute }, "--log-level info, before warning; --parent-shutdown-time-s 120, before 60"},
		{"another flag", func(o *Options) { o.Concurrency = 2 }, "--concurrency 2, before not set"},
		{"a flag without a value", func(o *Options) { o.Extra = []string{"--skip-deprecated-logs"} }, "--skip-deprecated-logs, before not set"},
		{
			"one in the place of another", func(o *Options) { o.Extra = []string{"--file-flush-interval-msec=50"} },
			"--file-flush-interval-msec no longer set; --file-flush-interval-msec=50, before not set",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := usual
			test.change(&o)
			if got := strings.Join(o.changedArguments(line), "; "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := usual.changedArguments([]string{"envoy", "-c", "x"}); got != nil {
		t.Errorf("a command line that is none of ours: %q", got)
	}
}

func TestAdminIsTheEpochsOwn(t *testing.T) {
	json := filesOf(room{"/c", "TOKEN"}, "rev4", "json")
	admin := string(json.adminJSON())
	if !strings.HasPrefix(admin, `{"address":{"pipe":{"path":"/c/admin-rev4-TOKEN.sock","mode":384}},"allow_paths":[`) {
		t.Errorf("the admin is %s", admin)
	}
	for _, test := range []struct{ name, bootstrap, want string }{
		{"none yet", `{"node":{"id":"x"}}`, `{"admin":` + admin + `,"node":{"id":"x"}}`},
		{"another", `{"admin":{"address":{"socket_address":{}}}}`, `{"admin":` + admin + `}`},
		{"another, after spaces", `{"node":{}, "admin" : {}}`, `{"admin":` + admin + `,"node":{}}`},
		{"another, written otherwise", `{"\u0061dmin":{}}`, `{"admin":` + admin + `}`},
		{"deeper", `{"a":{"name":"admin"}}`, `{"admin":` + admin + `,"a":{"name":"admin"}}`},
		{"nothing", `{}`, `{"admin":` + admin + `}`},
		{"no JSON: Envoy shall say so", `{"node"`, `{"node"`},
		{"no JSON at its end", `{"node":{}} ]`, `{"node":{}}]`},
		{"no object", `[]`, `[]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.NewReplacer(" ", "", "\n", "").Replace(json.withAdmin(test.bootstrap)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	yaml := filesOf(room{"/c", "TOKEN"}, "rev4", "yaml")
	if got := yaml.withAdmin("node: {id: x}"); got != "node: {id: x}" {
		t.Errorf("YAML became %s", got)
	}
	if got := strings.Join(argv(Options{LogLevel: "info"}, yaml, hotrestart.Sockets{}, 0), " "); !strings.Contains(got, `--config-yaml {"admin":`+admin+`} `) {
		t.Errorf("Envoy is not told of the admin over YAML: %s", got)
	}
}
