package envoy

import (
	"strings"
	"testing"
	"time"
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
		family  Family
		want    string
	}{
		{"without hot restart", usual, 0, begins + "--disable-hot-restart " + common + flush},
		{"with hot restart", usual, 1234567, begins + "--base-id 1234567 --restart-epoch 3 --socket-path /c/hot-TOKEN --socket-mode 600 --skip-hot-restart-parent-stats " + common + flush},
		{"all", all, 0, begins + "--disable-hot-restart " + common + " --component-log-level upstream:debug --concurrency 2" + flush + " --skip-deprecated-logs"},
		{"with its own interval", ownFlush, 0, begins + "--disable-hot-restart " + common + " --file-flush-interval-msec=50"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(argv(test.options, filesOf(room{"/c", "TOKEN"}, "rev4", "json"), sockets{room: room{"/c", "TOKEN"}, family: test.family}, 3), " "); got != test.want {
				t.Errorf("argv:\n got %s\nwant %s", got, test.want)
			}
		})
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
	if got := strings.Join(argv(Options{LogLevel: "info"}, yaml, sockets{}, 0), " "); !strings.Contains(got, `--config-yaml {"admin":`+admin+`} `) {
		t.Errorf("Envoy is not told of the admin over YAML: %s", got)
	}
}
