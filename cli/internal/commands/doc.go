// Package commands has the commands of docker repos. Each command is a file.
//
// A command is a client of the admin API without knowledge of its own, and behaves as docker does: its tables,
// templates, exit codes and questions are docker's.
//
//   - Names come from users of the engine, and an operator sees them on a terminal. In tables, and in everything on a
//     terminal, what is not printable is an escape as in JSON, so JSON stays the same JSON. Scripts get names as they
//     are. Shells complete only names of harmless characters, because a shell would run $(...) in one that was
//     completed.
//   - A secret is read from standard input before the connection is made: no relay waits for somebody who types.
//   - A command ends in order, after Ctrl-C and when its output is closed too, because it may have a relay to remove.
//     A plugin of docker also ends when docker closes its connection to it, as newer releases do.
package commands
