package config

//lint:file-ignore SA1019 deprecated fields of Istio are read too: files still have them

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

func destinationRule(f field, r *networking.DestinationRule) {
	if r.Host != "*" {
		f.at("host").host(r.Host, true)
	}
	f.at("exportTo").exportTo(r.ExportTo)
	f.at("workloadSelector").at("matchLabels").labels(r.GetWorkloadSelector().GetMatchLabels())
	if r.WorkloadSelector != nil {
		f.at("workloadSelector").someLabels(r.WorkloadSelector.MatchLabels)
		for i, namespace := range r.ExportTo {
			if namespace != "." && namespace != f.report.namespace {
				f.at("exportTo").item(i).errorf("is %q beside a workloadSelector, which selects workloads of the rule's own namespace alone", namespace)
			}
		}
	}
	trafficPolicy(f.at("trafficPolicy"), r.TrafficPolicy)
	meshName(f.at("host"), r.Host, "", r.TrafficPolicy)
	names := unique{}
	for i, subset := range r.Subsets {
		at := f.at("subsets").item(i)
		at.at("name").label(subset.GetName())
		names.add(at.at("name"), subset.GetName())
		at.at("labels").labels(subset.GetLabels())
		trafficPolicy(at.at("trafficPolicy"), subset.GetTrafficPolicy())
		policy := r.TrafficPolicy
		if subset.GetTrafficPolicy().GetTls() != nil {
			policy = subset.TrafficPolicy
		}
		meshName(at.at("name"), r.Host, subset.GetName(), policy)
	}
}

// meshName requires a name of the server, under ISTIO_MUTUAL, that Envoy takes: outbound_.PORT_.SUBSET_.HOST.
func meshName(f field, host, subset string, p *networking.TrafficPolicy) {
	mutual := func(t *networking.ClientTLSSettings) bool {
		return t.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL && t.GetSni() == ""
	}
	const most = 255
	sni := "outbound_.65535_." + subset + "_." + host
	if len(sni) > most && (mutual(p.GetTls()) || slices.ContainsFunc(p.GetPortLevelSettings(),
		func(l *networking.TrafficPolicy_PortTrafficPolicy) bool { return mutual(l.GetTls()) })) {
		f.errorf("makes the name of the server under ISTIO_MUTUAL %d bytes long, want at most %d: want shorter names, or tls.sni", len(sni), most)
	}
}

func trafficPolicy(f field, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	if proto.Size(p) == 0 {
		f.warnf("is empty: it says nothing")
	}
	loadBalancer(f.at("loadBalancer"), p.LoadBalancer)
	connectionPool(f.at("connectionPool"), p.ConnectionPool)
	outlierDetection(f.at("outlierDetection"), p.OutlierDetection)
	clientTLS(f.at("tls"), p.Tls)
	if b := p.RetryBudget; b != nil {
		f.at("retryBudget").at("percent").percent(b.GetPercent().GetValue())
		f.at("retryBudget").at("budgetInterval").duration(b.BudgetInterval)
	}
	ports := map[uint32]bool{}
	for i, level := range p.PortLevelSettings {
		at := f.at("portLevelSettings").item(i)
		n := level.GetPort().GetNumber()
		at.at("port").at("number").port(n)
		if ports[n] {
			at.at("port").at("number").errorf("is %d, which is there already", n)
		}
		ports[n] = true
		loadBalancer(at.at("loadBalancer"), level.GetLoadBalancer())
		connectionPool(at.at("connectionPool"), level.GetConnectionPool())
		outlierDetection(at.at("outlierDetection"), level.GetOutlierDetection())
		clientTLS(at.at("tls"), level.GetTls())
		if p.Tls != nil && p.Tls.Mode != networking.ClientTLSSettings_DISABLE && level.GetTls() == nil {
			at.at("tls").warnf("is missing: for port %d this is in the place of all the policy, its tls %s too, and connections are plain text; "+
				"want tls here as well, or mode DISABLE", n, p.Tls.Mode)
		}
	}
}

func loadBalancer(f field, b *networking.LoadBalancerSettings) {
	if b == nil {
		return
	}
	if hash := b.GetConsistentHash(); hash != nil {
		consistentHash(f.at("consistentHash"), hash)
	}
	localitySetting(f.at("localityLbSetting"), b.LocalityLbSetting)
	if b.WarmupDurationSecs != nil && b.Warmup != nil {
		f.at("warmupDurationSecs").errorf("is given beside warmup, want one of them")
	}
	warmupWindow(f.at("warmupDurationSecs"), b.WarmupDurationSecs.AsDuration(), b.WarmupDurationSecs != nil)
	if w := b.Warmup; w != nil {
		warmupWindow(f.at("warmup").at("duration"), w.Duration.AsDuration(), true)
		f.at("warmup").at("minimumPercent").percent(w.GetMinimumPercent().GetValue())
		if a := w.Aggression; a != nil && !(a.Value >= 1 && a.Value <= 1000) {
			f.at("warmup").at("aggression").errorf("is %v, want 1 or more", a.Value)
		}
	}
	if b.WarmupDurationSecs != nil || b.Warmup != nil {
		simple := b.GetSimple()
		if b.GetConsistentHash() != nil || simple == networking.LoadBalancerSettings_RANDOM ||
			simple == networking.LoadBalancerSettings_PASSTHROUGH {
			f.warnf("endpoints warm up under LEAST_REQUEST and ROUND_ROBIN only")
		}
	}
}

func warmupWindow(f field, d time.Duration, given bool) {
	if given && d < time.Second {
		f.errorf("is %v, want at least 1s", d)
	}
}

func consistentHash(f field, h *networking.LoadBalancerSettings_ConsistentHashLB) {
	switch key := h.HashKey.(type) {
	case nil:
		f.errorf("has no key, want httpHeaderName, httpCookie, useSourceIp or httpQueryParameterName")
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		headerKey(f.at("httpHeaderName"), key.HttpHeaderName)
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		f.at("httpQueryParameterName").required(len(key.HttpQueryParameterName))
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		at := f.at("httpCookie")
		if at.at("name").required(len(key.HttpCookie.GetName())) && !headerName.MatchString(key.HttpCookie.Name) {
			at.at("name").errorf("is %q, want a token of HTTP", key.HttpCookie.Name)
		}
		if strings.ContainsAny(key.HttpCookie.GetPath(), "\r\n\x00;") {
			at.at("path").errorf("is %q, want a path", key.HttpCookie.Path)
		}
		if d := key.HttpCookie.GetTtl(); d != nil && d.AsDuration() < 0 {
			at.at("ttl").errorf("is %v, want 0s or more", d.AsDuration())
		}
		names := map[string]bool{}
		for i, a := range key.HttpCookie.GetAttributes() {
			if names[a.GetName()] {
				at.at("attributes").item(i).at("name").errorf("is %q, which is there already", a.GetName())
			}
			names[a.GetName()] = true
			if !headerName.MatchString(a.GetName()) || len(a.GetName())+len(a.GetValue()) > 4096 ||
				strings.ContainsAny(a.GetValue(), "\r\n\x00;") {
				at.at("attributes").item(i).errorf("is %q=%q, want an attribute of a cookie", a.GetName(), a.GetValue())
			}
		}
	}
	if n := max(h.GetRingHash().GetMinimumRingSize(), h.GetMinimumRingSize()); n > 8<<20 {
		f.at("ringHash").at("minimumRingSize").errorf("is %d, want at most %d", n, 8<<20)
	}
	if n := h.GetMaglev().GetTableSize(); n != 0 && (n > 5000011 || !new(big.Int).SetUint64(n).ProbablyPrime(20)) {
		f.at("maglev").at("tableSize").errorf("is %d, want a prime number, at most 5000011", n)
	}
}

func headerKey(f field, name string) {
	if !headerName.MatchString(name) {
		f.errorf("is %q, want the name of a header", name)
	}
}

func localitySetting(f field, s *networking.LocalityLoadBalancerSetting) {
	if s == nil {
		return
	}
	if len(s.Distribute) > 0 && len(s.Failover)+len(s.FailoverPriority) > 0 {
		f.at("distribute").errorf("is given beside failover, want one of them")
	}
	for i, d := range s.Distribute {
		at := f.at("distribute").item(i)
		locality(at.at("from"), d.GetFrom())
		var sum uint64
		for to, share := range inOrder(d.GetTo()) {
			locality(at.at("to").key(to), to)
			if share == 0 || share > 100 {
				at.at("to").key(to).errorf("is %d, want 1 to 100", share)
			}
			sum += uint64(share)
		}
		if sum != 100 {
			at.at("to").errorf("adds up to %d, want 100", sum)
		}
	}
	for i, o := range s.Failover {
		at := f.at("failover").item(i)
		if o.GetFrom() == o.GetTo() {
			at.at("to").errorf("is %q, from which it fails over", o.GetTo())
		}
		for name, region := range inOrder(map[string]string{"from": o.GetFrom(), "to": o.GetTo()}) {
			if region == "" || strings.ContainsAny(region, "*/") {
				at.at(name).errorf("is %q, want a region", region)
			}
		}
	}
}

// locality requires "region/zone/sub-zone"; parts at the end may be missing or "*".
func locality(f field, s string) {
	parts := strings.Split(s, "/")
	star := slices.Index(parts, "*")
	if len(parts) > 3 || slices.Contains(parts, "") || star >= 0 && star < len(parts)-1 ||
		strings.Contains(strings.TrimSuffix(s, "*"), "*") {
		f.errorf("is %q, want region/zone/subzone, of which the end may be *", s)
	}
}

func connectionPool(f field, p *networking.ConnectionPoolSettings) {
	if p != nil && p.Tcp == nil && p.Http == nil {
		f.warnf("is empty: it says nothing")
	}
	if tcp := p.GetTcp(); tcp != nil {
		at := f.at("tcp")
		at.at("maxConnections").count(tcp.MaxConnections)
		at.at("connectTimeout").duration(tcp.ConnectTimeout)
		at.at("maxConnectionDuration").duration(tcp.MaxConnectionDuration)
		at.at("idleTimeout").timeout(tcp.IdleTimeout)
		if k := tcp.TcpKeepalive; k != nil {
			at.at("tcpKeepalive").at("time").seconds(k.Time.AsDuration(), k.Time != nil)
			at.at("tcpKeepalive").at("interval").seconds(k.Interval.AsDuration(), k.Interval != nil)
		}
	}
	if http := p.GetHttp(); http != nil {
		at := f.at("http")
		at.at("http1MaxPendingRequests").count(http.Http1MaxPendingRequests)
		at.at("http2MaxRequests").count(http.Http2MaxRequests)
		at.at("maxRequestsPerConnection").count(http.MaxRequestsPerConnection)
		at.at("maxRetries").count(http.MaxRetries)
		at.at("maxConcurrentStreams").count(http.MaxConcurrentStreams)
		at.at("idleTimeout").timeout(http.IdleTimeout)
		if http.UseClientProtocol && http.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE {
			at.at("useClientProtocol").errorf("is true beside h2UpgradePolicy UPGRADE, want one of them")
		}
		if k := http.Http2KeepAlive; k != nil {
			if k.Interval == nil {
				at.at("http2KeepAlive").at("interval").errorf("is missing")
			}
			if k.Timeout == nil {
				at.at("http2KeepAlive").at("timeout").errorf("is missing")
			}
			at.at("http2KeepAlive").at("interval").duration(k.Interval)
			at.at("http2KeepAlive").at("timeout").duration(k.Timeout)
		}
	}
}

// seconds requires at least one second, and whole seconds: the kernel's unit.
func (f field) seconds(d time.Duration, given bool) {
	if given && (d < time.Second || d > 1<<16*time.Second) {
		f.errorf("is %v, want at least 1s", d)
	}
}

func outlierDetection(f field, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	f.at("interval").duration(o.Interval)
	f.at("baseEjectionTime").duration(o.BaseEjectionTime)
	f.at("maxEjectionPercent").percent(float64(o.MaxEjectionPercent))
	f.at("minHealthPercent").percent(float64(o.MinHealthPercent))
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		f.at("consecutiveLocalOriginFailures").errorf("is given without splitExternalLocalOriginErrors")
	}
	// Envoy ejects for at most five minutes unless the base time itself is longer: that is no fault.
}

func clientTLS(f field, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	files := map[string]string{
		"clientCertificate": t.ClientCertificate, "privateKey": t.PrivateKey,
		"caCertificates": t.CaCertificates, "caCrl": t.CaCrl,
	}
	for name, path := range inOrder(files) {
		f.at(name).filePath(path)
		if path == "" {
			continue
		}
		switch {
		case t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
			f.at(name).errorf("is given under ISTIO_MUTUAL, which takes the proxy's own")
		case t.CredentialName != "" && name != "caCrl":
			f.at(name).errorf("is given beside credentialName, want one of them")
		}
	}
	if t.InsecureSkipVerify.GetValue() {
		for name, given := range inOrder(map[string]bool{
			"caCertificates": t.CaCertificates != "", "subjectAltNames": len(t.SubjectAltNames) > 0,
			"credentialName": t.Mode == networking.ClientTLSSettings_SIMPLE && t.CredentialName != "",
		}) {
			if given {
				f.at(name).errorf("is given beside insecureSkipVerify, under which no certificate is checked")
			}
		}
	}
	f.at("credentialName").credential(t.CredentialName)
	if t.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL && t.CredentialName != "" {
		f.at("credentialName").errorf("is given under ISTIO_MUTUAL, which takes the proxy's own")
	}
	if t.Mode == networking.ClientTLSSettings_MUTUAL && t.CredentialName == "" {
		f.at("clientCertificate").required(len(t.ClientCertificate))
		f.at("privateKey").required(len(t.PrivateKey))
	}
	if len(t.Sni) > 255 || strings.ContainsAny(t.Sni, "\x00") {
		f.at("sni").errorf("is %q, want the name of a server, at most 255 bytes", t.Sni)
	}
	for i, name := range t.SubjectAltNames {
		f.at("subjectAltNames").item(i).required(len(name))
	}
}
