// Package audit keeps the audit log: JSON lines in files, one for each change, with who
// asked for it.
//
//	audit/                          0700
//	  audit.jsonl                   the newest records, 0600
//	  audit-<first number>.jsonl    older ones, at most Files-1 files; the oldest are removed
//	  settings.json                 the settings of the last start
//
// Callers may rely on this: Record never blocks, does no I/O and never fails. Records are in
// the file in the order of the calls, each whole, in one line, and numbered. A record is
// written at once in the background, and on disk SyncAfter later. All files together take
// at most Config.Size.
//
// While the files can't be written, as on a full disk, up to 4096 records, of 4 MiB, wait in memory;
// more are lost. The log then says how many, in the record that it writes first when it can
// be written again, and their numbers are left out. A crash of the process loses what waits,
// one of the machine the last SyncAfter too. The next start says that the end before was not
// orderly, and cuts off a line that was not finished.
//
// What can't be relied on: root can change or remove the files. A number that is missing, and
// that no record explains, shows it; nothing proves that there was no such change.
//
// # Who records
//
// The core reports what it did to functions in its configurations (verbs.Config.Observe, janitor.Config.Evicted,
// workspace.Config.LeasesLost); plugin/audit.go makes records of that, and internal/admin/audit.go one of each request
// on the admin socket with another method than GET, from the answer that the client got. So a new route is recorded
// without further work; a test asks for its name. A record is put into the queue while the lock of its lease or name
// is held, so the order is that of the changes. An fsync for each mount would cost as much as its commit. The oldest
// file is removed before a new one is begun, because that makes room on a full disk.
package audit
