// Package relay reaches the plugin's admin socket through the Docker Engine API, for everybody who may
// use the engine but can't open the socket: members of the group docker, and users of an engine on
// another machine or in a virtual one.
//
// Open imports this program's own Linux binary as an image, and runs it as a container that copies bytes
// between its stdin and stdout, which the engine carries to the caller, and the admin socket. Nothing is
// pulled, and nothing stays: the engine removes the container when it ends, which it does when its
// caller is gone, and Close removes the image. A later Open removes the image and the container that a
// killed caller has left, which have a label; the container also has the mount of a relay.
//
// All users of the engine are root on its machine anyway, so the relay gives no right that its user does
// not have. It has few itself: no network, no capability, a read-only root directory, and of the
// machine only the directory with the plugin's sockets. The engine logs nothing of what passes through.
//
// The binary is a relay if its name is that of the file in the image: main calls Serve first.
package relay
