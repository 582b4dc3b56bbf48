package model

import (
	"strings"
	"testing"
)

func TestGrant(t *testing.T) {
	eureka := Grant{Suffix: "service.eureka", Domains: []string{"bank.com"}, Never: []string{"svc.cluster.local", "svc"}, Setting: "eurekaDomains"}
	everything := Grant{Domains: []string{"*"}, Never: []string{"svc.cluster.local", "svc", "service.eureka"}, Setting: "natsDomains"}
	for _, test := range []struct {
		grant Grant
		host  string
		right Right
		fault string // a part of it; "" if the host may be given
	}{
		{eureka, "web.service.eureka", RightSuffix, ""},
		{eureka, "a.b.service.eureka", RightSuffix, ""},
		{eureka, "bank.com", RightGuest, ""},
		{eureka, "api.bank.com", RightGuest, ""},
		{eureka, "evilbank.com", RightGuest, "want one below service.eureka, bank.com, or the domain in --eurekaDomains"},
		{eureka, "api.bank.com.evil.test", RightGuest, "want one below service.eureka, bank.com"},
		{eureka, "service.eureka.evil.test", RightGuest, "want one below"},
		{everything, "shop.example.com", RightGuest, ""},
		{everything, "*.example.com", RightGuest, ""},
		{everything, "web.default.svc.cluster.local", RightGuest, "is a name of svc.cluster.local"},
		{everything, "*.svc.cluster.local", RightGuest, "is a name of svc.cluster.local"},
		{everything, "*.cluster.local", RightGuest, "is a name of svc.cluster.local"},
		{everything, "*.local", RightGuest, "a whole top-level domain"},
		{everything, "web.default.svc", RightGuest, "is a name of svc,"},
		{everything, "x.service.eureka", RightGuest, "is a name of service.eureka"},
		{everything, "web", RightGuest, ""},
		{eureka, "web", RightGuest, "want one below"},
		{everything, "10.96.0.1", RightGuest, "is an address"},
		{everything, "*.com", RightGuest, "a whole top-level domain"},
		{Grant{Domains: []string{"*"}, Never: []string{"svc.corp.example"}}, "*.corp.example", RightGuest, "is a name of svc.corp.example"},
	} {
		right, err := test.grant.Right(test.host)
		switch {
		case test.fault == "" && (err != nil || right != test.right):
			t.Errorf("%s: %d, %v, want %d", test.host, right, err, test.right)
		case test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)):
			t.Errorf("%s: %v, want %q", test.host, err, test.fault)
		}
	}
}
