package kubernetes

import "github.com/hashicorp/terraform-plugin-go/tfprotov6"

// Framework is the server to which a server of this provider hands on what it
// doesn't answer itself. wrap replaces it.
func Framework(server tfprotov6.ProviderServer, wrap func(tfprotov6.ProviderServer) tfprotov6.ProviderServer) tfprotov6.ProviderServer {
	s := server.(*quietServer)
	inner := s.ProviderServer
	if wrap != nil {
		s.ProviderServer = wrap(inner)
	}
	return inner
}
