// Package guard decides which servers the URLs in a repository may lead to.
//
// The plugin is on the host's network: a URL in a repository (of a submodule or an LFS
// endpoint, or a redirect from there) must not reach servers that only this machine can
// reach. The addresses that Check returns, and those that Dial connects to, are public,
// or those of the volume's own server. All addresses of a name are checked, and only
// checked ones are used, so a different second answer of the name servers has no effect.
// The package is safe for concurrent use.
//
// # What is checked
//
// The URL of a submodule, the LFS server that .lfsconfig names, the URLs of objects that this server names, and its
// redirects. git gets the checked addresses as http.curloptResolve, ssh as HostName with the name as HostKeyAlias, and
// our own client dials them; git:// can't be held to an address, and is refused. Addresses that embed another one
// (NAT64, 6to4) count as that. Behind a proxy, the proxy connects; the name must still have addresses here, and pass.
package guard
