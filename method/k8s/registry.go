package k8s

import "fmt"

// Registry says how images come to the registry, whichever that is in a run.
type Registry struct {
	// Compression of layers that their source does not hold compressed, "gzip"
	// or "zstd"; empty is the oci provider's choice.
	Compression string
	// PlainHTTP are the hosts ("name" or "name:port") that may be spoken to
	// without TLS.
	PlainHTTP []string
	// CAFile is the path of a PEM file with CAs to trust beside the system's; a
	// relative one starts from the directory of the group file.
	CAFile string
	// UploadHosts are the hosts that a registry may send uploads to.
	UploadHosts []string
}

func (r *Registry) read(o fields) {
	r.Compression = o.string("compression", false, isCompression)
	r.PlainHTTP = o.strings("plainHTTP", isHost)
	r.CAFile = o.string("caFile", false, isPath)
	r.UploadHosts = o.strings("uploadHosts", isHost)
}

// strings reads the array of strings of key.
func (o fields) strings(key string, rule func(string) error) (list []string) {
	v, _ := o.typed(key, kindArray, false)
	at := o.at.child(key)
	for i, elem := range v.elems {
		if elem.kind != kindString {
			o.r.add(at.element(i), "is %s, must be %s", elem.kind, kindString)
		} else if err := rule(elem.text); err != nil {
			o.r.add(at.element(i), "%v", err)
		}
		list = append(list, elem.text)
	}
	return list
}

func isCompression(s string) error {
	if s != "gzip" && s != "zstd" {
		return fmt.Errorf(`%s is no compression that yuba knows; they are "gzip" and "zstd"`, quote(s))
	}
	return nil
}

// isHost is the rule of host[:port].
func isHost(s string) error {
	if len(s) > 260 || !hostPort.MatchString(s) {
		return fmt.Errorf("%s is not the name or address of a host, with or without a port", quote(s))
	}
	return nil
}

// writeRegistry writes the configuration of the oci provider, if there is one.
func (g *Group) writeRegistry(f *file) {
	var attrs []attr
	if g.Registry.Compression != "" {
		attrs = append(attrs, attr{"compression", str(g.Registry.Compression)})
	}
	if g.Registry.CAFile != "" {
		attrs = append(attrs, attr{"ca_file", str(g.resolve(g.Registry.CAFile))})
	}
	for _, l := range []struct {
		name  string
		hosts []string
	}{{"plain_http", g.Registry.PlainHTTP}, {"upload_hosts", g.Registry.UploadHosts}} {
		var hosts []expr
		for _, host := range l.hosts {
			hosts = append(hosts, str(host))
		}
		if hosts != nil {
			attrs = append(attrs, attr{l.name, list(hosts...)})
		}
	}
	if attrs != nil {
		f.block("provider", []string{"oci"}, attrs...)
	}
}
