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
//
// The relay is made from the ID that the engine answered, because whoever may use the engine could move a name to
// another image; the image has no name. The binary is the running one, or on another system repos-linux-ARCH beside
// it. The container is root without capabilities, which is enough for a socket of root, and has --userns=host if the
// engine remaps users. yamux carries several connections over the one stream, so a client that closes one reaches the
// plugin as that. It ends when the stream does, or when its caller has not answered for a minute.
//
// Only a killed command leaves an image, or a container that was never started; the next one removes those that are
// older than a minute. It knows an image by its label and its comment, because an image that somebody builds from a
// relay's has the label too. An image costs the engine little, because all relays of one binary are one layer. The
// audit log has the user whom the relay names as a claim, because anybody can name anybody.
package relay
