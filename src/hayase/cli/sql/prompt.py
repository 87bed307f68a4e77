"""The shell at a terminal: editing, history, completion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import clear

from hayase.cli.sql.completion import SqlCompleter
from hayase.cli.sql.shell import LeaveShell, Shell, is_complete

_PROMPT, _MORE = "hayase> ", "      > "


def history_of(file: Path) -> History:
    """The history in a file that only its owner may read; in memory, where the file cannot be made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def statements_of(history: History) -> Iterator[str]:
    """Statements of a history, the oldest first."""
    return iter(list(history.load_history_strings())[::-1])


def clear_screen() -> None:
    """Clear the terminal."""
    clear()


def interact(shell: Shell, history: History) -> None:
    """Read and execute what is typed, until EXIT or Ctrl-D. Ctrl-C drops what is typed."""
    session: PromptSession[str] = PromptSession(
        history=history,
        completer=SqlCompleter(shell),
        complete_in_thread=True,
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=_MORE,
    )
    while True:
        try:
            with patch_stdout():
                text = session.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            shell.run_typed(text)
        except KeyboardInterrupt:
            continue
        except LeaveShell:
            return


def _keys() -> KeyBindings:
    """Enter executes what is complete, and begins a new line otherwise."""
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
