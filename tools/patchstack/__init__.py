"""The patch stack: ordered patches on top of a pinned SGLang release, applied and exported.

Layers, each of which imports only those above it:

========================  ==========================================================
``errors``, ``command``   the one error type; how every tool starts and ends
``report``                progress on standard error
``files``                 what is read of the user's, refused in one line where it is odd
``children``              child processes end with the tool, helped by ``supervise``
``gitenv``                git without the user's configuration
``repository``            one repository, asked through it
``usergit``               git with the user's configuration, which only fetches
``context``               every path
``locking``               one run at a time in a folder
``swap``                  a folder replaced whole or not at all, whatever is killed
``revisions``             ``patches/revisions.toml``: the supported releases
``mail``                  one commit <-> one mail patch
``series``, ``lock``      ``patches/<revision>/``: the patches; what they must give
``history``               what became of commits that a lock no longer has
``upstream``, ``base``    the release's wheel; the commit made of its files
``findings``              a place, the rule that it breaks, and how
``patch_lines``, ``lint`` a patch file's lines; the rules that one keeps
``build``                 patches to commits, in the object database alone
``changes``, ``publish``  what a user did to a tree; a new tree in place of an old one
``picking``, ``conflict`` a commit moved by a merge; the text that git could not merge
``resolutions``           how conflicts were resolved, for when one returns
``reworks``               what else was done to a merge, for when that returns
``records``               ``patches/resolutions/``: the files of both
``drift``                 what a new release changed where the patches are
``release``               a release that is not pinned yet, found with pip
``lost_names``            what a patch uses that the new release does not have
``interpreter``, ``smoke`` an environment that runs a release; whether a patch means something
``ground``                what a stack stands on, and how sure that is
``source_*``, ``source``  the pinned wheel, a tag, a checkout or files as that; ``--source``
``wheel``                 the patched release and hiqcache itself, ready for pip
``applying``              the whole of ``tools/apply.py``
``exporting``             the whole of ``tools/export.py``
``moving``                a series moved as far as it goes by itself
``rebase_*``              one rebase: its options, its state on disk, its report, its words
``resolving``             what the user made of a patch that stopped
``rebasing``              the whole of ``tools/rebase.py``
``replaying``             the whole of ``tools/moves.py``
``footprint``             how much of SGLang a series changes
``seam``, ``documents``   where SGLang is hooked; the generated parts of ``docs/``
``check_*``, ``checking`` the rules of ``patches/``; the whole of ``tools/check.py``
``documenting``           the whole of ``tools/write_docs.py``
``commit_map``            patches to commits and back: the whole of ``tools/map.py``
========================  ==========================================================
"""
