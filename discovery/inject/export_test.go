package inject

// Names are the fields of Istio's ProxyConfig that are known here.
func Names() []string { return names() }
