// Package prebuild fills the warm directories of a repository before containers need them: it runs a setup command in
// a container of its own, whose volume has publish=marked, and later an update command for commits that follow.
//
// What is there already, the plugin says: each state of a warm path has a label, which is the text of the mark that its
// container made. The label of a prebuild is a hash of the image's ID, the commands and what they see, so a state is that of this
// prebuild if the label is equal, and the prebuild keeps nothing itself. The mark is made last, and only if the command
// succeeded: a command that fails, is killed or hangs changes nothing for other containers, unless it makes the mark itself
// before it is killed. The label proves nothing to somebody who does not trust the containers of the subject, because any
// of them can make the same mark.
//
// The container and its volume have a random name, and a label with this name, by which a later prebuild finds and
// removes what a killed one has left. The label of an image that somebody makes of such a container is not the name of
// the containers of that image, so these are not found.
//
// Two prebuilds of one state may run at the same time. The first to end is published; the changes of the other are
// dropped, as those of any two containers.
package prebuild
