//go:build pod

package pod

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// try is one connection, and the name of the process that is to answer it.
type try struct {
	from   string // pod, world
	user   lab.User
	to     string // host:port
	answer string
}

func outward(to, answer string) try { return try{"pod", app, to, answer} }
func inward(to, answer string) try  { return try{"world", operator, to, answer} }
func asProxy(to, answer string) try { return try{"pod", proxy, to, answer} }

// The traffic that each flag and each variable redirects, and the traffic that it leaves alone.
var redirections = []struct {
	name  string
	words []string
	tries []try
}{
	{"defaults", nil, []try{
		outward(vip+":80", "out"),
		outward("["+vip6+"]:80", "out"),
		outward(otherIP+":443", "out"),
		outward("127.0.0.1:8080", "app:8080"), // within the pod
		outward("[::1]:8080", "app:8080"),
		outward(podIP+":8080", "app:8080"),
		{"pod", operator, vip + ":80", "out"}, // root is redirected as well
		asProxy(vip+":80", "world"),           // no loop
		asProxy("["+vip6+"]:80", "world"),
		asProxy("127.0.0.1:8080", "app:8080"),
		asProxy(podIP+":8080", "in"), // self-calls are inbound calls
		asProxy("["+podIP6+"]:8080", "in"),
		asProxy(podIP+":15020", "app:15020"),
		{"pod", lab.User{UID: appUID, GID: proxyUID}, vip + ":80", "world"},
		inward(podIP+":8080", "in"),
		inward("["+podIP6+"]:8080", "in"),
		inward(podIP+":7777", "in"),         // a port that nobody listens on
		inward(podIP+":22", "app:22"),       // an operator's way in
		inward(podIP+":15020", "app:15020"), // probes of the agent
		inward(podIP+":15001", "refused"),   // the loop trap
		inward(podIP+":15006", "refused"),
		inward("["+podIP6+"]:15001", "refused"),
		outward("127.0.0.1:15001", "refused"),
		outward("127.0.0.1:15006", "refused"),
		asProxy("127.0.0.1:15001", "refused"),
		asProxy(podIP+":15006", "refused"),
	}},
	{"-p, -z", []string{"-p", "8081", "-z", "9090"}, []try{
		outward(vip+":80", "app:8081"), inward(podIP+":8080", "app:9090"), inward(podIP+":8081", "refused"),
	}},
	{"ENVOY_PORT, INBOUND_CAPTURE_PORT", []string{"ENVOY_PORT=8081", "INBOUND_CAPTURE_PORT=9090"}, []try{
		outward(vip+":80", "app:8081"), inward(podIP+":8080", "app:9090"),
	}},
	{"-u: the group goes with it", []string{"-u", "1000,2000"}, []try{
		outward(vip+":80", "world"), asProxy(vip+":80", "out"),
		{"pod", lab.User{UID: 3000, GID: 2000}, vip + ":80", "world"},
	}},
	{"-g", []string{"-g", "4000"}, []try{
		{"pod", lab.User{UID: 1000, GID: 4000}, vip + ":80", "world"},
		{"pod", lab.User{UID: 1000, GID: 1337}, vip + ":80", "out"},
	}},
	{"PROXY_UID, PROXY_GID", []string{"PROXY_UID=2000", "PROXY_GID=4000"}, []try{
		{"pod", lab.User{UID: 2000, GID: 1}, vip + ":80", "world"},
		{"pod", lab.User{UID: 1000, GID: 4000}, vip + ":80", "world"},
		asProxy(vip+":80", "out"),
	}},
	{"-b: some ports", []string{"-b", "8080,9000-9099"}, []try{
		inward(podIP+":8080", "in"), inward(podIP+":9090", "in"), inward("["+podIP6+"]:9090", "in"),
		inward(podIP+":8081", "app:8081"), asProxy(podIP+":8081", "app:8081"), asProxy(podIP+":8080", "in"),
	}},
	{"-b: none", []string{"-b", ""}, []try{
		inward(podIP+":8080", "app:8080"), asProxy(podIP+":8080", "app:8080"), outward(vip+":80", "out"),
	}},
	{"ISTIO_INBOUND_PORTS", []string{"ISTIO_INBOUND_PORTS=8080"}, []try{
		inward(podIP+":8080", "in"), inward(podIP+":8081", "app:8081"),
	}},
	{"-d", []string{"-d", "8080,9000-9099"}, []try{
		inward(podIP+":8080", "app:8080"), inward(podIP+":9090", "app:9090"), inward("["+podIP6+"]:8080", "app:8080"),
		inward(podIP+":8081", "in"), inward(podIP+":22", "app:22"), inward(podIP+":15020", "in"),
	}},
	{"ISTIO_LOCAL_EXCLUDE_PORTS", []string{"ISTIO_LOCAL_EXCLUDE_PORTS=8080"}, []try{
		inward(podIP+":8080", "app:8080"), inward(podIP+":8081", "in"),
	}},
	{"-i: some addresses, of both families", []string{"-i", "10.96.0.0/16,fd00:96::/32"}, []try{
		outward(vip+":80", "out"), outward("["+vip6+"]:80", "out"),
		outward(otherIP+":80", "world"), outward("["+worldIP6+"]:80", "world"), outward(worldIP+":80", "world"),
	}},
	{"-i: overlapping, and an address alone", []string{"-i", "10.0.0.0/8,10.96.0.0/16,10.96.0.1"}, []try{
		outward(vip+":80", "out"), outward(otherIP+":80", "world"),
	}},
	{"-i: an address of loopback", []string{"-i", "127.1.2.0/24,10.96.0.0/16"}, []try{
		outward("127.1.2.3:8080", "out"), outward("127.0.0.1:8080", "app:8080"), outward("127.1.3.3:8080", "app:8080"),
		asProxy("127.1.2.3:8080", "app:8080"), outward(vip+":80", "out"), outward(podIP+":8080", "app:8080"),
	}},
	{"-i: none", []string{"-i", ""}, []try{
		outward(vip+":80", "world"), outward("["+vip6+"]:80", "world"), inward(podIP+":8080", "in"),
	}},
	{"ISTIO_SERVICE_CIDR", []string{"ISTIO_SERVICE_CIDR=10.96.0.0/16"}, []try{
		outward(vip+":80", "out"), outward(otherIP+":80", "world"),
	}},
	{"-x", []string{"-x", "10.96.0.0/16,fd00:96::/32"}, []try{
		outward(vip+":80", "world"), outward("["+vip6+"]:80", "world"),
		outward(otherIP+":80", "out"), outward("["+worldIP6+"]:80", "out"),
	}},
	{"-x within -i", []string{"-i", "10.0.0.0/8", "-x", "10.96.0.0/16"}, []try{
		outward(vip+":80", "world"), outward(worldIP+":80", "out"),
	}},
	{"ISTIO_SERVICE_EXCLUDE_CIDR", []string{"ISTIO_SERVICE_EXCLUDE_CIDR=10.96.0.0/16"}, []try{
		outward(vip+":80", "world"), outward(otherIP+":80", "out"),
	}},
	{"-o", []string{"-o", "443,9000-9001"}, []try{
		outward(vip+":443", "world"), outward(vip+":9000", "world"), outward("["+vip6+"]:443", "world"), outward(vip+":80",
			"out"),
	}},
	{"ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE", []string{"ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE=443"}, []try{
		outward(vip+":443", "world"), outward(vip+":80", "out"),
	}},
	{"-q: ports whatever -i is", []string{"-i", "10.96.0.0/16", "-q", "443,9000-9001", "-x", "172.16.0.0/12"}, []try{
		outward(vip+":80", "out"), outward(worldIP+":443", "out"), outward("["+worldIP6+"]:9000", "out"),
		outward(worldIP+":80", "world"), outward(otherIP+":443", "world"),
	}},
	{"ISTIO_OUTBOUND_PORTS", []string{"ISTIO_OUTBOUND_PORTS=443", "ISTIO_SERVICE_CIDR="}, []try{
		outward(vip+":443", "out"), outward(vip+":80", "world"),
	}},
	{"-c: an interface", []string{"-c", "eth0"}, []try{
		outward(vip+":80", "world"), outward("["+vip6+"]:80", "world"), inward(podIP+":8080", "app:8080"),
	}},
	{"ISTIO_EXCLUDE_INTERFACES, TPROXY", []string{"ISTIO_EXCLUDE_INTERFACES=eth0", "-m", "TPROXY"}, []try{
		outward(vip+":80", "world"), inward(podIP+":8080", "app:8080"),
	}},
	{"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", []string{"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE=4000,daemon"}, []try{
		outward(vip+":80", "out"),
		{"pod", lab.User{UID: appUID, GID: 4000}, vip + ":80", "world"},
		{"pod", lab.User{UID: appUID, GID: 1}, vip + ":80", "world"},
	}},
	{"ISTIO_OUTBOUND_OWNER_GROUPS", []string{"ISTIO_OUTBOUND_OWNER_GROUPS=4000,daemon"}, []try{
		outward(vip+":80", "world"),
		{"pod", lab.User{UID: appUID, GID: 4000}, vip + ":80", "out"},
		{"pod", lab.User{UID: appUID, GID: 1}, vip + ":80", "out"},
		asProxy(vip+":80", "world"), inward(podIP+":8080", "in"),
	}},
	{"as an injector calls it", []string{
		"-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15021,15020,",
		"--log_output_level=default:info",
	}, []try{
		outward(vip+":80", "out"), inward(podIP+":8080", "in"), inward(podIP+":15020", "app:15020"),
	}},
	{"long names, --drop-invalid", []string{
		"--envoy-port=8081", "--istio-service-cidr", "10.96.0.0/16", "--istio-local-exclude-ports", "8080", "--drop-invalid",
	}, []try{
		outward(vip+":80", "app:8081"), outward(otherIP+":80", "world"), inward(podIP+":8080", "app:8080"), inward(podIP+":9090", "in"),
	}},
	{"-k", []string{"-k", "vm0"}, []try{
		{"vm", operator, vip + ":80", "out"}, inward(podIP+":8080", "in"),
	}},
	{"KUBEVIRT_INTERFACES, within -i", []string{"KUBEVIRT_INTERFACES=vm0", "ISTIO_SERVICE_CIDR=10.96.0.0/16"}, []try{
		{"vm", operator, vip + ":80", "out"}, {"vm", operator, otherIP + ":80", "world"},
	}},
	{"DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK", []string{"DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK=1"}, []try{
		asProxy(podIP+":8080", "app:8080"), inward(podIP+":8080", "in"), outward(vip+":80", "out"),
	}},
	{"TPROXY", []string{"-m", "TPROXY"}, []try{
		outward(vip+":80", "out"),
		outward("["+vip6+"]:80", "out"),
		outward("127.0.0.1:8080", "app:8080"),
		outward(podIP+":8080", "app:8080"),
		asProxy(vip+":80", "world"),
		asProxy(podIP+":8080", "in"),
		inward(podIP+":8080", "in"),
		inward("["+podIP6+"]:8080", "in"),
		inward(podIP+":22", "app:22"),
		inward(podIP+":15001", "refused"),
		inward(podIP+":15006", "refused"),
	}},
	{"TPROXY, some ports", []string{
		"ISTIO_INBOUND_INTERCEPTION_MODE=TPROXY", "ISTIO_INBOUND_TPROXY_MARK=77",
		"ISTIO_INBOUND_TPROXY_ROUTE_TABLE=78", "-b", "8080",
	}, []try{
		inward(podIP+":8080", "in"), inward(podIP+":8081", "app:8081"),
	}},
}

// Every flag and variable does the same by every backend, and the address that was dialled is there to be found.
func TestRedirect(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		vm := lab.NewNetns(t, "vm")
		s.pod.Join("vm0", vm, "eth0")
		s.pod.Address("vm0", innerIP+"/24")
		vm.Address("eth0", vmIP+"/24")
		vm.Must("ip", "route", "add", "default", "via", innerIP)
		s.pod.Must("sysctl", "-qw", "net.ipv4.ip_forward=1")
		s.world.Must("ip", "route", "add", vmIP+"/32", "via", podIP)
		places := map[string]*lab.Netns{"pod": s.pod, "world": s.world, "vm": vm}
		before := s.listing()
		for _, test := range redirections {
			t.Run(test.name, func(t *testing.T) {
				if output, err := b.run(s.pod, test.words...); err != nil {
					t.Fatalf("%v:\n%s", err, output)
				}
				for _, try := range test.tries {
					answer, dialled, source := dial(places[try.from], try.user, try.to)
					if answer != try.answer {
						t.Errorf("%s, user %d, to %s: answered by %q, want %q", try.from, try.user.UID, try.to, answer, try.answer)
					} else if answer != "refused" && dialled != try.to {
						t.Errorf("%s, user %d, to %s: %s takes it for a call to %s", try.from, try.user.UID, try.to, answer, dialled)
					}
					if host, _, _ := net.SplitHostPort(strings.ReplaceAll(source, "::ffff:", "")); try.from == "world" &&
						answer == "in" && host != worldIP && host != worldIP6 {
						t.Errorf("to %s: the source is %s, want the client's", try.to, source)
					}
					s.explains(b, test.words, try, answer)
				}
				if output, err := b.run(s.pod, append([]string{}, cleaning(test.words)...)...); err != nil {
					t.Fatalf("clean: %v:\n%s", err, output)
				}
			})
		}
		if after := s.listing(); after != before {
			t.Errorf("rules are left:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// explains holds what pod-init explain says to the answer that a connection got. It speaks of groups that are none of
// the policy's, and of interfaces of no name.
func (s *scene) explains(b backend, words []string, try try, answer string) {
	s.t.Helper()
	var caller string
	switch {
	case slices.ContainsFunc(words, func(w string) bool { return w == "eth0" || strings.HasSuffix(w, "=eth0") }):
		return
	case try.from == "world":
		caller = "another host"
	case try.from == "pod" && try.user == proxy && !slices.Contains(words, "-u") && !slices.Contains(words, "PROXY_UID=2000"):
		caller = "the proxy"
	case try.from == "pod" && try.user == app && !slices.Contains(words, "1000,2000"):
		caller = "a program"
	default:
		return
	}
	variables := slices.IndexFunc(words, func(w string) bool { return w[0] == '-' })
	if variables < 0 {
		variables = len(words)
	}
	output, err := b.run(s.pod, slices.Concat(words[:variables], []string{"explain", try.to}, words[variables:])...)
	if err != nil {
		s.t.Fatalf("explain: %v:\n%s", err, output)
	}
	_, port, _ := net.SplitHostPort(try.to)
	for line := range strings.Lines(output) {
		said, ours := strings.CutPrefix(strings.TrimSpace(line), caller)
		if !ours {
			continue
		}
		_, verdict, _ := strings.Cut(said, ": ")
		want := map[string]string{"out": "sent to port 15001", "in": "sent to port 15006", "refused": "refused"}[answer]
		if proxied, ok := strings.CutPrefix(answer, "app:"); ok && proxied != port {
			want = "sent to port " + proxied
		} else if want == "" {
			want = "left alone"
		}
		if verdict != want {
			s.t.Errorf("explain says of %s to %s %q, the connection was %s by %q:\n%s", caller, try.to, verdict, want, answer, output)
		}
		return
	}
	s.t.Errorf("explain says nothing of %s:\n%s", caller, output)
}

// cleaning returns the words that undo what these words did: marks and tables are given again.
func cleaning(words []string) (out []string) {
	for _, w := range words {
		if strings.HasPrefix(w, "ISTIO_INBOUND_TPROXY_") {
			out = append(out, w)
		}
	}
	return append(out, "clean")
}
