"""Prints what a library finds in a repository: read.py libgit2|dulwich DIRECTORY."""
import sys

library, path = sys.argv[1:]
if library == "libgit2":
    import pygit2

    r = pygit2.Repository(path)
    print(r.head.name, r.head.target, r.head_is_detached, r.is_bare)
    for name in sorted(r.listall_references()):
        print(name, r.lookup_reference(name).resolve().target)
    for entry in r.lookup_reference("HEAD").log():
        print(entry.oid_old, entry.oid_new, entry.message)
    try:
        for commit in r.walk(r.head.target):
            print(commit.id, len(commit.tree))
    except KeyError as e:  # it does not know where a shallow history ends
        print(e)
    print(r.status(), r.remotes["origin"].url)
else:
    from dulwich import porcelain
    from dulwich.repo import Repo

    r = Repo(path)
    print(r.head(), r.refs.follow(b"HEAD"))
    print(sorted(r.refs.as_dict().items()))
    for entry in r.get_walker():
        print(entry.commit.id)
    print(porcelain.status(r), r.get_config().get((b"remote", b"origin"), b"url"))
