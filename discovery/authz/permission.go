package authz

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// permissions returns the conditions of tests about a request's destination and content.
func (r rules) permissions(all []test) (and []*rbacv3.Permission, ok bool) {
	for _, t := range all {
		values, not, ok := r.readable(t)
		if !ok {
			return nil, false
		}
		if len(values) > 0 {
			and = append(and, anyPermission(permissionsOf(t.Condition, values)))
		}
		if len(not) > 0 {
			and = append(and, &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: anyPermission(permissionsOf(t.Condition, not))}})
		}
	}
	return and, true
}

func permissionsOf(c model.Condition, values []string) (out []*rbacv3.Permission) {
	for _, v := range values {
		out = append(out, permissionOf(c, v))
	}
	return out
}

func permissionOf(c model.Condition, value string) *rbacv3.Permission {
	switch c.Attribute {
	case model.Host:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header(":authority", value, true)}}
	case model.Method:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header(":method", value, false)}}
	case model.Path:
		if template, is, _ := model.ParsePathTemplate(value); is {
			return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
				Name: "uri-template", TypedConfig: pack(&templatev3.UriTemplateMatchConfig{PathTemplate: template}),
			}}}
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
			Rule: &matcherv3.PathMatcher_Path{Path: text(value)},
		}}}
	case model.DestinationIP:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: addresses(value)}}
	case model.DestinationPort:
		port, _ := strconv.ParseUint(value, 10, 16) // it was found to be one
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(port)}}
	case model.ServerNameAsked:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: text(value)}}
	default: // EnvoyFilterValue: [X] is an item of a list
		m := textValue(text(value))
		if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") && len(value) > 2 {
			m = oneOf(textValue(text(value[1 : len(value)-1])))
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: metadata(c.Name, c.Path, m)}}
	}
}

func anyPermission(all []*rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: all}}}
}

func allPermissions(all []*rbacv3.Permission) *rbacv3.Permission {
	if len(all) == 0 {
		all = []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: all}}}
}
