"""Folders and files that other users of the machine cannot read, whatever the umask says."""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import stat
from pathlib import Path

from hayase.core.errors import StateError

_LOG = logging.getLogger("hayase")

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_GROUP_FOLDER, _GROUP_FILE = 0o770, 0o660


class _Access:
    """What this process allows; see `allow_group_access`."""

    group = False


def allow_group_access(allowed: bool) -> None:
    """Let the group of a folder read and write what this process makes from now on (`allow.os.group.write.access`)."""
    _Access.group = allowed


def folder_mode() -> int:
    """Permissions of folders: 0700, with group access 0770."""
    return _GROUP_FOLDER if _Access.group else _PRIVATE_FOLDER


def file_mode() -> int:
    """Permissions of files: 0600, with group access 0660."""
    return _GROUP_FILE if _Access.group else _PRIVATE_FILE


def umask() -> int:
    """What other processes that this one starts may not allow: 077, with group access 007."""
    return 0o777 & ~folder_mode()


def make_folder(path: Path) -> None:
    """Make a folder, and what is missing above it, private. One that is there already is left as it is.

    Raises:
        OSError: it cannot be made.
    """
    path = Path(path)
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    try:
        path.mkdir(mode=folder_mode())
    except FileExistsError:
        if not path.is_dir():
            raise
        return  # another process made it meanwhile
    path.chmod(folder_mode())


def make_root(path: Path) -> None:
    """Make the folder that all of something is in, private; tighten one that is there and too open.

    A folder of this user that others may read is closed to them, with a line in the log: earlier versions left the
    permissions to the umask. The home folder and folders with the sticky bit (`/tmp`) stay as they are.

    Raises:
        StateError: `FOLDER_NOT_PRIVATE`: it belongs to another user, who could read and change what is in it.
        OSError: it cannot be made.
    """
    path = Path(path)
    make_folder(path)
    found = path.stat()
    if found.st_uid != os.geteuid():
        if not _may_share(found):
            raise _not_private(path, f"it belongs to user {_user(found.st_uid)}", found)
        return
    allowed = folder_mode()
    if stat.S_IMODE(found.st_mode) & 0o077 & ~allowed and not found.st_mode & stat.S_ISVTX and path != _home():
        _LOG.warning(
            "%s could be used by other users (mode %s): it is closed to them (mode %s)",
            path,
            oct(stat.S_IMODE(found.st_mode)),
            oct(allowed),
        )
        path.chmod(allowed)


def make_predictable(path: Path) -> None:
    """Make a folder whose name others can guess, in a place where all may write: only one that is really ours is used.

    Raises:
        StateError: `FOLDER_NOT_PRIVATE`: it is a link, no folder, another user's, or open to others.
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=_PRIVATE_FOLDER)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _not_private(path, "it is a link, or no folder", found)
    if found.st_uid != os.geteuid():
        raise _not_private(path, f"it belongs to user {_user(found.st_uid)}", found)
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise _not_private(path, "other users may write to it", found)
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(_PRIVATE_FOLDER)


def open_file(path: Path | str, flags: int) -> int:
    """A descriptor of a file that is made, if it is made, for this user alone. Never follows a link at its end.

    Raises:
        OSError: as `os.open`; ELOOP where the path is a link.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, file_mode())
    if flags & os.O_CREAT:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != file_mode():
            os.fchmod(descriptor, file_mode())
    return descriptor


def write_file(path: Path, data: bytes) -> None:
    """Write a file anew, private."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(data)


def _may_share(found: os.stat_result) -> bool:
    """Root may use what is another user's; with group access, so may the members of the folder's group."""
    return os.geteuid() == 0 or (_Access.group and found.st_gid in {os.getegid(), *os.getgroups()})


def _not_private(path: Path, why: str, found: os.stat_result) -> StateError:
    return StateError(
        "FOLDER_NOT_PRIVATE",
        f"{path} is not used: {why} (mode {oct(stat.S_IMODE(found.st_mode))}). Remove it, set another folder, or have it be "
        f"yours alone: chown {_user(os.geteuid())} {path} && chmod 700 {path}. allow.os.group.write.access=true lets the members "
        "of its group share it",
    )


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
