"""Message classes for tests, made by protoc as an application's build would."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "hayase_money.proto";
enum Kind { BOOK = 0; PEN = 1; }
message Other { map<string, int64> counts = 1; message Inner { string text = 1; } }
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  Kind kind = 4;
  Money price = 5;
  repeated string tags = 6;
}
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


@cache
def generated() -> Any:
    """The module of SHOP."""
    folder = Path(tempfile.mkdtemp(prefix="hayase-protos-"))
    (folder / "hayase_shop.proto").write_text(SHOP)
    (folder / "hayase_money.proto").write_text(MONEY)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}"]
    subprocess.run([*command, "hayase_shop.proto", "hayase_money.proto"], check=True, timeout=120)
    sys.path.append(str(folder))
    return importlib.import_module("hayase_shop_pb2")
