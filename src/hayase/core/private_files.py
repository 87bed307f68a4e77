"""Folders and files that only their user can enter and read, or a group of the user's choice, whatever the umask is.

A folder says by its mode who may do what in it, and everything made below takes that over: so all processes that share
a folder agree without a setting. Beside the owner a group has access where the folder has the setgid bit and gives
nothing to others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from hayase.core.errors import FolderError

_LOG = logging.getLogger(__name__)

Access = Literal["none", "read", "write"]
"""What the group of a folder may do in it; others may do nothing."""

_FOLDER_MODES: dict[Access, int] = {"none": 0o700, "read": stat.S_ISGID | 0o750, "write": stat.S_ISGID | 0o770}
_FILE_MODES: dict[Access, int] = {"none": 0o600, "read": 0o640, "write": 0o660}
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def access_of(folder: Path) -> Access:
    """What a folder's group may do in it; `none` too where others have access, which is then not handed down."""
    return _access(folder.stat().st_mode)


def make_folder(folder: Path, access: Access | None = None) -> None:
    """Make a folder, and those above it that are missing; one that is there stays as it is.

    Args:
        folder: the folder.
        access: of its group; `None`: as the folder has that it is in.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as place:
        ...     make_folder(Path(place) / "a" / "b")
        ...     oct((Path(place) / "a").stat().st_mode & 0o777)
        '0o700'
    """
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent, access)
    mode = _FOLDER_MODES[access or access_of(folder.parent)]
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    if stat.S_IMODE(folder.stat().st_mode) != mode:  # the umask, or the setgid bit of the folder above
        folder.chmod(mode)


def file_mode(folder: Path) -> int:
    """The mode of files made in a folder."""
    return _FILE_MODES[access_of(folder)]


def umask_of(folder: Path) -> int:
    """The umask of a process that makes files below a folder and knows nothing of this module.

    Example:
        >>> from tempfile import mkdtemp
        >>> oct(umask_of(Path(mkdtemp())))
        '0o77'
    """
    return 0o777 & ~_FOLDER_MODES[access_of(folder)]


def open_file(path: Path, flags: int) -> int:
    """Open a file, made if it is missing; a descriptor, closed on `exec`. Never what another user put in its place.

    Args:
        path: of the file.
        flags: of `os.open`; O_CREAT is added. With O_TRUNC it is emptied once it is known to be ours.

    Raises:
        FolderError: `FILE_NOT_PRIVATE`: it is a link, is no file, belongs to another user, or has a second name where
            others could have given it one.
    """
    folder = path.parent.stat()
    mode = _FILE_MODES[_access(folder.st_mode)]
    # O_NONBLOCK: a pipe in its place is found out instead of waited for. It means nothing for files.
    flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC, mode)
    except OSError as error:
        if path.is_symlink():
            raise _not_private_file(path, "it is a symbolic link") from error
        raise
    try:
        info = os.fstat(descriptor)
        _check_file(path, info, folder)
        if stat.S_IMODE(info.st_mode) != mode and info.st_uid == os.geteuid():
            os.fchmod(descriptor, mode)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_file(path: Path, data: bytes) -> None:
    """Write a file again; raises as `open_file`."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)


def settle_file(path: Path) -> None:
    """Give a file that a library made the mode that files have in its folder."""
    info, mode = path.lstat(), file_mode(path.parent)
    if stat.S_IMODE(info.st_mode) != mode and info.st_uid == os.geteuid():
        path.chmod(mode)


def check_file(path: Path) -> None:
    """Check a file, if it is there, that a library is about to open by its name.

    Raises:
        FolderError: `FILE_NOT_PRIVATE`, as `open_file`.
    """
    try:
        _check_file(path, path.lstat(), path.parent.stat())
    except FileNotFoundError:
        return


def is_own_folder(path: Path) -> bool:
    """Whether it is a folder of this user's, and no link to one."""
    try:
        info = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def check_owner(path: Path) -> None:
    """See to it that what is run from a folder was put there by this user or root.

    Raises:
        FolderError: `FOLDER_NOT_PRIVATE`.
    """
    info = path.stat()
    if info.st_uid not in (os.geteuid(), 0):
        raise _not_private(path, info, f"it belongs to {_user(info.st_uid)}", f"chown -R {_me()} {path}")


def private_folder(
    path: Path, access: Access | None = None, *, contents: Collection[str] | None = None, predictable: bool = False
) -> None:
    """Make a folder that the user named, or see to it that the one there is private.

    One that is open is closed, with everything in it, unless it holds what is not Hayase's: then only what is Hayase's
    is.

    Args:
        path: the folder.
        access: of its group; `None`: none, unless it was given access before.
        contents: names that Hayase gives to what is in it; `None`: the folder is Hayase's whatever is in it.
        predictable: it is in a place where every user can make folders, and its name is known.

    Raises:
        FolderError: `FOLDER_NOT_PRIVATE`: it, or something in it, belongs to another user.
    """
    make_folder(path, access or "none")
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        if predictable or info.st_uid not in (os.geteuid(), 0):
            raise _not_private(path, info, f"it is a symbolic link of {_user(info.st_uid)}", f"rm {path}")
        info = path.stat()
    if info.st_uid != os.geteuid():
        _check_foreign(path, info, predictable)
        return
    wanted = access or _access(info.st_mode)
    if stat.S_IMODE(info.st_mode) == _FOLDER_MODES[wanted]:
        return
    entries = sorted(path.iterdir())
    ours = [each for each in entries if contents is None or each.name in contents]
    shared = _is_shared_place(path, info)
    if len(ours) < len(entries) or shared:
        for each in ours:
            _close(each, wanted, info)
        if not shared and info.st_mode & _OTHERS_WRITE:
            others = ", ".join(sorted({each.name for each in entries} - {each.name for each in ours})[:3])
            _LOG.warning(
                "folder %s stays as it is (mode %04o), for it holds what is not Hayase's (%s): other users can move "
                "and replace what is in it; name a folder of its own, or `chmod go-w %s`",
                path,
                stat.S_IMODE(info.st_mode),
                others,
                path,
            )
        return
    # First the folder itself: then no other user can put anything in it.
    path.chmod(_FOLDER_MODES[wanted])
    if stat.S_IMODE(path.stat().st_mode) & 0o777 != _FOLDER_MODES[wanted] & 0o777:
        raise _not_private(path, info, "its file system does not keep modes", "mount it otherwise")
    for each in ours:
        _close(each, wanted, info)
    if ours:
        _LOG.warning(
            "folder %s had mode %04o; it has %04o now, as has what is in it: other users could enter it",
            path,
            stat.S_IMODE(info.st_mode),
            _FOLDER_MODES[wanted],
        )


def _access(mode: int) -> Access:
    if mode & stat.S_ISGID and not mode & stat.S_IRWXO:
        if mode & stat.S_IRWXG == stat.S_IRWXG:
            return "write"
        if mode & stat.S_IRWXG == stat.S_IRGRP | stat.S_IXGRP:
            return "read"
    return "none"


def _is_shared_place(path: Path, info: os.stat_result) -> bool:
    """Whether it is a folder that no program has for itself: a user's home, or one like `/tmp`."""
    shared = {Path("/"), Path(os.environ.get("HOME") or "/").resolve()}
    with contextlib.suppress(KeyError):  # a container may run as a user that has no account
        shared.add(Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve())
    return bool(info.st_mode & stat.S_ISVTX) or path.resolve() in shared


def _check_foreign(path: Path, info: os.stat_result, predictable: bool) -> None:
    """Let pass what an administrator made, and what a group shares on purpose."""
    if not predictable:
        if info.st_uid == 0:
            if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
                _LOG.warning("any user can move or remove what is in %s, which root owns: `chmod +t` it", path)
            return
        if _access(info.st_mode) != "none" and info.st_gid in {os.getegid(), *os.getgroups()}:
            return
    raise _not_private(path, info, f"it belongs to {_user(info.st_uid)}", f"chown -R {_me()} {path}")


def _close(path: Path, access: Access, root: os.stat_result) -> None:
    """Give a file or folder, and everything in it, the modes of an access."""
    for each in (path, *_below(path)):
        info = each.lstat()
        if info.st_uid not in (os.geteuid(), 0) and root.st_mode & _OTHERS_WRITE:
            raise _not_private(each, info, f"it belongs to {_user(info.st_uid)}", f"chown -R {_me()} {each}")
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1 and root.st_mode & _OTHERS_WRITE:
            raise _not_private_file(each, "it has a second name (a hard link)")
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISDIR(info.st_mode):
            mode = _FOLDER_MODES[access]
        elif stat.S_ISREG(info.st_mode):
            mode = _FILE_MODES[access] | mode & stat.S_IXUSR
        if info.st_uid == os.geteuid() and stat.S_IMODE(info.st_mode) != mode:
            each.chmod(mode)


def _below(path: Path) -> Iterator[Path]:
    if not path.is_symlink() and path.is_dir():
        for folder, folders, files in os.walk(path):
            yield from (Path(folder, name) for name in (*folders, *files))


def _check_file(path: Path, info: os.stat_result, folder: os.stat_result) -> None:
    shared = _access(folder.st_mode) != "none"
    if stat.S_ISLNK(info.st_mode):
        raise _not_private_file(path, "it is a symbolic link")
    if not stat.S_ISREG(info.st_mode):
        raise _not_private_file(path, "it is no regular file")
    if info.st_nlink > 1 and not shared and (folder.st_mode & _OTHERS_WRITE or folder.st_uid not in (os.geteuid(), 0)):
        raise _not_private_file(path, "it has a second name (a hard link)")
    if info.st_uid not in (os.geteuid(), 0) and not shared:
        raise _not_private_file(path, f"it belongs to {_user(info.st_uid)}")


def _not_private(path: Path, info: os.stat_result, why: str, command: str) -> FolderError:
    mode = f"{stat.S_IMODE(info.st_mode):04o}"
    return FolderError(
        "FOLDER_NOT_PRIVATE",
        f"{path} (mode {mode}) cannot be used by {_me()}: {why}, who could read and change what is put there. Name "
        f"another folder, for example one inside it that Hayase makes, or fix this one: {command}",
        folder=str(path),
        owner=_user(info.st_uid),
        mode=mode,
    )


def _not_private_file(path: Path, why: str) -> FolderError:
    return FolderError(
        "FILE_NOT_PRIVATE",
        f"{path} cannot be used by {_me()}: {why}. Another user may have put it there; look at it, and remove it: rm "
        f"{path}",
        file=str(path),
    )


def _me() -> str:
    return _user(os.geteuid())


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
