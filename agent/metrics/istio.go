package metrics

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Workload is what Istio's metrics tell of the workload beside the agent. Empty fields are written as "unknown".
type Workload struct {
	Name, Namespace, App, Version, Canonical, Revision, Cluster string
}

// istioStats begins the names of the stats that access logs of discovery's listeners count; without "envoy_" they are Istio's.
const istioStats = "envoy_istio_"

const (
	unknown = "unknown"
	spiffe  = "spiffe://" // begins an identity in a certificate
)

// istio gives counts of access logs Istio's labels. Envoy tells of a request the reporter, the cluster, the peer's certificate and the
// outcome; the agent knows its own workload.
type istio struct {
	own Workload

	all, counted map[string]int64 // requests and connections by reporter
	sums         []sum            // of the family that is copied, in Envoy's order
	places       map[string]int   // of sums, by name and labels
}

// sum is a sample of which Envoy may have several, since Istio's labels tell less than Envoy: not the subset and the port of a cluster, for
// example. A scraper would take one of several samples with the same labels, and drop the others.
type sum struct {
	sample
	whole int64   // of the values that are whole numbers
	rest  float64 // of the others
}

// mostSums is much more than what the logs of discovery's listeners make: those of a bootstrap of the user's own may have no limit.
const mostSums = 10_000

// newIstio returns the labels of a workload, escaped.
func newIstio(w Workload) *istio {
	for _, field := range []*string{&w.Name, &w.Namespace, &w.App, &w.Version, &w.Canonical, &w.Revision, &w.Cluster} {
		if *field = labelEscapes.Replace(strings.ToValidUTF8(*field, "?")); *field == "" {
			*field = unknown
		}
	}
	return &istio{own: w, all: map[string]int64{}, counted: map[string]int64{}, places: map[string]int{}}
}

// rename returns a sample with Istio's name, and the tags of which its labels are to be made: nil if it is not Istio's, and stays as it is. It returns false
// for one that is not to be written.
func (i *istio) rename(s sample) (_ sample, tags map[string]string, written bool) {
	name, found := bytes.CutPrefix(s.name, []byte(istioStats))
	if !found {
		return s, nil, true
	}
	tags = labelsOf(s.labels)
	told(tags)
	if bytes.HasSuffix(name, []byte("_all_total")) {
		count, _ := strconv.ParseInt(string(s.value), 10, 64) // a counter is a whole number
		i.all[tags["reporter"]] += count
		return s, nil, false
	}
	s.name = append([]byte("istio_"), name...)
	return s, tags, true
}

// add adds a sample that rename has returned to the others of the same name and labels. It reports whether there was room for it.
func (i *istio) add(s sample, tags map[string]string) bool {
	name := string(s.name)
	s.labels = i.labels(tags, strings.HasPrefix(name, "istio_tcp_"))
	key := name + string(s.labels)
	at, known := i.places[key]
	switch {
	case !known && len(i.sums) == mostSums:
		return false
	case !known:
		at = len(i.sums)
		i.places[key], i.sums = at, append(i.sums, sum{sample: s})
	}
	one := &i.sums[at]
	count, err := strconv.ParseInt(string(s.value), 10, 64)
	if err != nil {
		part, _ := strconv.ParseFloat(string(s.value), 64) // parseSample has read it
		one.rest += part
		return true
	}
	one.whole += count
	if name == "istio_requests_total" || name == "istio_tcp_connections_closed_total" {
		i.counted[tags["reporter"]] += count
	}
	return true
}

// flush writes the sums, and forgets them.
func (i *istio) flush(to *bufio.Writer) {
	for _, one := range i.sums {
		one.value = strconv.AppendInt(nil, one.whole, 10)
		if one.rest != 0 {
			one.value = strconv.AppendFloat(nil, float64(one.whole)+one.rest, 'g', -1, 64)
		}
		one.write(to)
	}
	i.sums = i.sums[:0]
	clear(i.places)
}

// side is what is told of the source, or of the destination.
type side struct{ name, namespace, canonical, revision, app, version, principal, cluster string }

// labels returns Istio's labels of a count. Values are escaped already.
func (i *istio) labels(tags map[string]string, tcp bool) []byte {
	own := side{i.own.Name, i.own.Namespace, i.own.Canonical, i.own.Revision, i.own.App, i.own.Version, unknown, i.own.Cluster}
	peer := peerSide(tags["peer"])
	if peer.principal != unknown && strings.HasPrefix(tags["own"], spiffe) {
		own.principal = tags["own"]
	}
	source, destination, policy := own, peer, unknown
	service := serviceOf(tags["cluster"], &destination)
	if tags["reporter"] == "destination" {
		source, destination, policy = peer, own, "none"
		service = [3]string{unknown, unknown, own.namespace}
		if peer.principal != unknown {
			policy = "mutual_tls"
		}
	}
	out := []byte(`{`)
	add := func(name, value string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, name...), `="`...), value...), '"')
	}
	add("reporter", tags["reporter"])
	for i, s := range []side{source, destination} {
		prefix := [...]string{"source_", "destination_"}[i]
		add(prefix+"workload", s.name)
		add(prefix+"workload_namespace", s.namespace)
		add(prefix+"canonical_service", s.canonical)
		add(prefix+"canonical_revision", s.revision)
		add(prefix+"app", s.app)
		add(prefix+"version", s.version)
		add(prefix+"principal", s.principal)
		if s.cluster != unknown || s.namespace == unknown { // Kiali leaves out a known namespace of a cluster that is called unknown, and not one without the label
			add(prefix+"cluster", s.cluster)
		}
	}
	add("destination_service", service[0])
	add("destination_service_name", service[1])
	add("destination_service_namespace", service[2])
	add("request_protocol", protocolOf(tags["request_protocol"], tcp))
	if !tcp {
		add("response_code", tags["response_code"])
	}
	if flags, told := tags["response_flags"]; told {
		add("response_flags", flags)
	}
	add("connection_security_policy", policy)
	if le, bucket := tags["le"]; bucket {
		add("le", le)
	}
	return append(out, '}')
}

// peerSide tells of a peer what its certificate says: namespace and service account, which stands for the workload.
func peerSide(principal string) side {
	s := side{unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown}
	if !strings.HasPrefix(principal, spiffe) {
		return s
	}
	s.principal = principal
	if parts := strings.Split(principal, "/"); len(parts) == 7 && parts[3] == "ns" && parts[5] == "sa" {
		s.namespace, s.name = parts[4], parts[6]
	}
	return s
}

// serviceOf returns host, name and namespace of the service of a cluster by discovery's naming, and completes the destination's namespace.
func serviceOf(cluster string, destination *side) [3]string {
	parts := strings.Split(cluster, "|")
	if len(parts) != 4 || parts[3] == "" {
		name := unknown
		if cluster == "BlackHoleCluster" || cluster == "PassthroughCluster" {
			name = cluster
		}
		return [3]string{name, name, unknown}
	}
	host := parts[3]
	name, rest, _ := strings.Cut(host, ".")
	namespace, _, qualified := strings.Cut(rest, ".svc.")
	if !qualified {
		return [3]string{host, host, unknown} // of a ServiceEntry
	}
	if destination.namespace == unknown {
		destination.namespace = namespace
	}
	return [3]string{host, name, namespace}
}

func protocolOf(protocol string, tcp bool) string {
	switch {
	case tcp:
		return "tcp"
	case strings.HasPrefix(protocol, "HTTP/"):
		return "http"
	}
	return unknown
}

// told adds what the tag "of" tells in one text, whose parts are in this order; "." is not told. The peer comes last: what a certificate says
// of it may have any form.
func told(tags map[string]string) {
	parts := strings.SplitN(tags["of"], " ", 7)
	for i, name := range []string{"reporter", "response_code", "response_flags", "request_protocol", "cluster", "own", "peer"} {
		if i < len(parts) && parts[i] != "" && parts[i] != "." {
			tags[name] = parts[i]
		}
	}
}

// labelsOf returns the labels of a valid sample, with their escapes.
func labelsOf(text []byte) map[string]string {
	out := map[string]string{}
	rest := strings.Trim(string(text), "{}")
	for {
		name, value, found := strings.Cut(rest, "=")
		value = strings.TrimLeft(value, " \t")
		length := quotedLength([]byte(value))
		if !found || length < 2 {
			return out
		}
		out[strings.Trim(name, " \t,")] = value[1 : length-1]
		rest = value[length:]
	}
}

// write tells how many were not counted by their labels, since Envoy counts a bounded number of sets of labels.
func (i *istio) write(w Writer) {
	if len(i.all) == 0 {
		return
	}
	w.Family("istio_uncounted", "gauge", "Requests, and connections of TCP, of this Envoy that Istio's metrics lack: there are more sets of labels than are counted.")
	for _, reporter := range []string{"source", "destination"} {
		if all, told := i.all[reporter]; told {
			w.Sample("istio_uncounted", max(0, all-i.counted[reporter]), "reporter", reporter)
		}
	}
}

// description renames the family of a TYPE or HELP; false if it is not to be written.
func (i *istio) description(name []byte) ([]byte, bool) {
	rest, found := bytes.CutPrefix(name, []byte(istioStats))
	if !found {
		return name, true
	}
	if bytes.HasSuffix(rest, []byte("_all_total")) {
		return nil, false
	}
	return fmt.Appendf(nil, "istio_%s", rest), true
}
