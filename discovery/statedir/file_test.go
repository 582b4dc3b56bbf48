package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// groups have every field of the model's values, and objects.
func groups() map[string]model.Group {
	service, workload, meta := &model.Service{}, &model.Workload{}, model.Meta{}
	for _, v := range []any{service, workload, &meta} {
		fill(reflect.ValueOf(v).Elem(), 0)
	}
	service.Resolution, service.Ports[0].Protocol = model.ResolutionDNS, model.GRPCWeb
	meta.Kind, meta.Origin.Fields = "VirtualService", ""
	warnings := model.WarningsOf([]model.Warning{{Path: "spec.http", Message: "text \n"}, {Message: "is old"}})
	return map[string]model.Group{
		"all": {Services: []*model.Service{service, {Right: model.RightFull, Host: "b"}}, Workloads: []*model.Workload{workload, {}}},
		"rule": {Objects: []*model.Object{
			{Meta: meta, Spec: &networking.VirtualService{Hosts: []string{"a", "b"}}, Warnings: warnings},
			{Meta: model.Meta{Kind: "MeshConfig", Name: "default"}, Spec: &meshconfig.MeshConfig{TrustDomain: "corp"}},
		}},
	}
}

// fill gives every field a value that is not its zero value.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text \n", depth))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = noon
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	default:
		panic(v.Type())
	}
}

func written1(t *testing.T, g map[string]model.Group) string {
	t.Helper()
	var out bytes.Buffer
	n, err := write(&out, header{Source: "a", Of: Of{"cluster.local", "Kubernetes", "all"}, At: noon}, g, maxFile)
	if err != nil || n != int64(out.Len()) {
		t.Fatal(n, err)
	}
	return out.String()
}

// What is written is read again, with every field of the model but the lines of an object's fields.
func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, want := range []map[string]model.Group{groups(), {}} {
		h, got, err := read(strings.NewReader(written1(t, want)), maxFile)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := (header{format, "a", Of{"cluster.local", "Kubernetes", "all"}, noon}); h != want {
			t.Errorf("the header is %+v, want %+v", h, want)
		}
	}
	for health := model.Health(0); health.Known(); health++ {
		want := map[string]model.Group{"w": {
			Workloads: []*model.Workload{{Health: health}}, Services: []*model.Service{{Right: model.RightFull, Endpoints: []model.Endpoint{{Health: health}}}},
		}}
		if _, got, err := read(strings.NewReader(written1(t, want)), maxFile); err != nil || !cmp.Equal(want, got) {
			t.Errorf("of one that is %s: %+v, %v", health, got, err)
		}
	}
	with := groups()
	with["rule"].Objects[0].Origin.Fields = "\x01\xff"
	if _, got, err := read(strings.NewReader(written1(t, with)), maxFile); err != nil || got["rule"].Objects[0].Origin.Fields != "" {
		t.Errorf("with lines of fields it has %q, %v", got["rule"].Objects[0].Origin.Fields, err)
	}
}

// Each kind of object has the type that the model has for it.
func TestKinds(t *testing.T) {
	all := kinds()
	for kind, name := range all {
		if _, _, err := decode([]byte(fmt.Sprintf(`{"Key":"k","Objects":[{"Meta":{"Kind":%q},"Type":%q}]}`, kind, name))); err != nil {
			t.Error(err)
		}
	}
	if len(all) != 15 { // the types of model.Spec, and those of key sets and challenges
		t.Errorf("there are %d kinds", len(all))
	}
}

// What keeps clients out comes back as it was kept, and so does what is in the same file.
func TestPoliciesComeBack(t *testing.T) {
	deny := &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
	for kind, spec := range map[string]proto.Message{
		"AuthorizationPolicy":   deny,
		"RequestAuthentication": &security.RequestAuthentication{JwtRules: []*security.JWTRule{{Issuer: "a"}}},
		"PeerAuthentication":    &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_STRICT}},
	} {
		meta := model.Meta{Kind: kind, Namespace: "shop", Name: "p", Closed: true, DryRun: true}
		line, err := encode("k", model.Group{Objects: []*model.Object{{Meta: meta, Spec: spec}}})
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := decode(line)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if o := got.Objects[0]; !o.Closed || !o.DryRun || o.Key() != meta.Key() || !proto.Equal(o.Spec.(proto.Message), spec) {
			t.Errorf("%s comes back as %+v", kind, o)
		}
	}
}

// A file that is not as it was written is named, and why. It is never used in part.
func TestBrokenFiles(t *testing.T) {
	whole := written1(t, groups())
	lines := strings.SplitAfter(whole, "\n")
	body := strings.Join(lines[1:], "")
	for name, test := range map[string]struct{ text, want string }{
		"empty":               {"", "is not whole"},
		"a byte is missing":   {whole[:len(whole)-1], "is not whole"},
		"half of it":          {whole[:len(whole)/2], "is not whole"},
		"without its end":     {strings.Join(lines[:len(lines)-2], ""), "is not whole"},
		"something after it":  {whole + "x", "goes on after its last line"},
		"twice":               {whole + whole, "goes on after its last line"},
		"another format":      {strings.Replace(whole, format, "pilotlight state 2", 1), `is of format "pilotlight state 2", want "pilotlight state 1"`},
		"no state":            {"kind: Service\n" + body, `is of format "", want`},
		"a changed byte":      {strings.Replace(whole, `"Host":"b"`, `"Host":"c"`, 1), "is damaged: it has 2 groups and the checksum"},
		"a changed header":    {strings.Replace(whole, "cluster.local", "cluster.lokal", 1), "is damaged"},
		"a line less":         {lines[0] + lines[2] + lines[3], "is damaged: it has 1 groups"},
		"not JSON":            {lines[0] + "{\n", "cannot be read: unexpected end of JSON"},
		"an empty group":      {lines[0] + `{"Key":"x"}` + "\n", `cannot be read: group "x": has nothing in it`},
		"an unknown health":   {lines[0] + `{"Key":"x","Workloads":[{"Name":"w","Health":9}]}` + "\n", `workload "w": health is 9`},
		"a null":              {lines[0] + `{"Key":"x","Services":[null]}` + "\n", `group "x": a part of it is null`},
		"another type":        {lines[0] + `{"Key":"x","Objects":[{"Meta":{"Kind":"Gateway"},"Type":"istio.networking.v1alpha3.Sidecar"}]}` + "\n", `an object of kind "Gateway" is of type`},
		"a kind that is none": {lines[0] + `{"Key":"x","Objects":[{"Meta":{"Kind":"Secret"},"Type":"google.protobuf.Any"}]}` + "\n", `an object of kind "Secret"`},
		"a broken spec":       {lines[0] + `{"Key":"x","Objects":[{"Meta":{"Kind":"Gateway"},"Type":"istio.networking.v1alpha3.Gateway","Spec":"/w=="}]}` + "\n", `group "x"`},
		"a protocol": {
			lines[0] + `{"Key":"x","Services":[{"Host":"h","Ports":[{"Protocol":"http"}]}]}` + "\n", `service "h": protocol is "http"`,
		},
		"a resolution":      {lines[0] + `{"Key":"x","Services":[{"Host":"h","Resolution":"X"}]}` + "\n", `resolution is "X"`},
		"an end of no JSON": {lines[0] + `{"Groups":"x"}` + "\n", "cannot be read: its last line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, err := read(strings.NewReader(test.text), maxFile)
			if got != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%d groups, %v, want %q", len(got), err, test.want)
			}
		})
	}
	if _, _, err := read(strings.NewReader(whole), int64(len(whole))-1); !errors.Is(err, errTooLong) {
		t.Errorf("a file of too many bytes: %v", err)
	}
	if _, err := write(&bytes.Buffer{}, header{}, groups(), 1000); !errors.Is(err, errTooLong) {
		t.Errorf("too many bytes to write: %v", err)
	}
	disk := errors.New("no space left on device")
	for room := range len(whole) {
		if _, err := write(&small{room, disk}, header{Source: "a", Of: Of{"cluster.local", "Kubernetes", "all"}, At: noon}, groups(), maxFile); !errors.Is(err, disk) {
			t.Fatalf("a disk with %d bytes of %d: %v", room, len(whole), err)
		}
	}
}

// small is a disk with room for some bytes.
type small struct {
	room int
	full error
}

func (s *small) Write(p []byte) (int, error) {
	if s.room -= len(p); s.room < 0 {
		return 0, s.full
	}
	return len(p), nil
}

// What an earlier run has kept is used with the same settings, until it is too old. A clock that was set back makes nothing old.
func TestRefuse(t *testing.T) {
	of := Of{"cluster.local", "Kubernetes", "all"}
	for name, test := range map[string]struct {
		of   Of
		age  time.Duration
		want string
	}{
		"the same":            {of, time.Minute, ""},
		"of the future":       {of, -time.Hour, ""},
		"at the end":          {of, 24 * time.Hour, ""},
		"too old":             {of, 25 * time.Hour, "is 25h0m0s old, want at most 24h0m0s"},
		"of 1970":             {of, time.Duration(1<<63 - 1), "old, want at most"},
		"of another domain":   {Of{"corp", "Kubernetes", "all"}, 0, `is of domain "cluster.local", now it is "corp"`},
		"of another cluster":  {Of{"cluster.local", "east", "all"}, 0, `is of cluster "Kubernetes", now it is "east"`},
		"with other settings": {Of{"cluster.local", "Kubernetes", "some"}, 0, `is of settings "all", now it is "some"`},
	} {
		if got := (header{Of: of, At: noon}).refuse(test.of, 24*time.Hour, noon.Add(test.age)); !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestFormat: a field of the model that is added, removed or renamed changes what files hold. If one without a value would be
// wrong, format changes with it; then this text does too.
func TestFormat(t *testing.T) {
	var fields []string
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
			return
		}
		seen[of] = true
		names := []string{}
		for f := range of.Fields() {
			names = append(names, f.Name)
			walk(f.Type)
		}
		fields = append(fields, of.Name()+": "+strings.Join(names, " "))
	}
	walk(reflect.TypeFor[record]())
	want := []string{
		"Record: Cluster UID Generation Version Relayed",
		"Origin: File Line Fields Record",
		"Port: Name Number Target Protocol",
		"Locality: Region Zone SubZone",
		"Endpoint: Address Ports Labels Weight Locality Network Partial Cluster ServiceAccount Proxied Health Hostname Node",
		"Service: Registry Cluster Origin Right Host Namespace Name Created Resolution External Headless NodeLocal Prefer Addresses Ports Endpoints " +
			"ClusterAddresses ExternalName AliasOf Aliases Selector Ignored ExportTo SubjectAltNames Accounts",
		"Workload: Registry Cluster Namespace Name Addresses Ports Labels ServiceAccount Weight Locality Network Health Proxied OnNode Origin",
		"Meta: Kind Namespace Name Labels Created Origin Closed WholeHosts DryRun",
		"Warning: Path Message",
		"object: Meta Type Spec Warnings",
		"record: Key Services Workloads Objects Stranded",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("the fields are others: does %q still say what a file is? (-want +got)\n%s", format, diff)
	}
}

// No file brings read to its knees, and what it accepts is the same when it is written again.
func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	if _, err := write(&out, header{Source: "a", At: noon}, groups(), maxFile); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"Format":"pilotlight state 1"}` + "\n" + `{"Groups":0,"SHA256":""}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, got, err := read(bytes.NewReader(data), 1<<20)
		if err != nil {
			if got != nil {
				t.Errorf("%d groups of a broken file", len(got))
			}
			return
		}
		same(t, h, got)
	})
}

// FuzzDecode does the same with a group, which needs no checksum.
func FuzzDecode(f *testing.F) {
	for key, group := range groups() {
		line, err := encode(key, group)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if key, group, err := decode(line); err == nil {
			same(t, header{}, map[string]model.Group{key: group})
			_ = fmt.Sprint(group.Empty(), group.Guests())
		}
	})
}

func same(t *testing.T, h header, want map[string]model.Group) {
	t.Helper()
	var out bytes.Buffer
	if _, err := write(&out, h, want, maxFile); err != nil {
		t.Fatal(err)
	}
	_, got, err := read(&out, maxFile)
	if err != nil {
		t.Fatal(err)
	}
	for key, group := range want {
		for i, o := range group.Objects {
			if !proto.Equal(o.Spec.(proto.Message), got[key].Objects[i].Spec.(proto.Message)) {
				t.Errorf("the spec of %s has changed", o.Key())
			}
		}
		if len(got[key].Services) != len(group.Services) || len(got[key].Workloads) != len(group.Workloads) {
			t.Errorf("the group %q has changed", key)
		}
	}
}
