from collections.abc import Iterable, MutableSequence

from google.protobuf.message import Message

class MessageOptions(Message):
    map_entry: bool

class FileDescriptorProto(Message):
    name: str
    package: str
    @property
    def dependency(self) -> MutableSequence[str]: ...

class FileDescriptorSet(Message):
    def __init__(self, *, file: Iterable[FileDescriptorProto] = ()) -> None: ...
    @property
    def file(self) -> MutableSequence[FileDescriptorProto]: ...
