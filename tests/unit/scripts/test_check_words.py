"""What `make lint` refuses in prose, and what it lets pass."""

import pytest
from scripts.check_words import LINE_MAX, faults


def found(*lines, **options):
    return sorted({number for number, _ in faults(list(lines), **options)})


@pytest.mark.parametrize(
    "line",
    [
        "It can not be read.",
        "These are files of the user's, and those of others.",
        '"""Streaming frames of Spark\'s that the program reads."""',
        "A callback of the program's is called.",
        "In the file there is what was written.",
        "Whoever reads it gets an error.",
        "It is known to nobody.",
        '"""Who holds the lock writes."""',
        "The lock is free. Who waits for it goes on.",
        "The client takes its seat.",
        "It knocks at the door.",
        "The hub is deserted.",
        "The conductor stands up.",
        "The driver is told of the epoch.",
        "Fences are mended, and it waits no more.",
        "The folder is made anew.",
        "The record is passed over.",
        "An epoch that is through is not read.",
        "All but for one.",
        "It waits for ever.",
        "It ended for want of memory.",
        "The record is dropped for good.",
        "It shows what there is.",
        "The epoch came through.",
    ],
)
def test_a_construction_of_the_list_is_refused_in_code_and_in_pages(line):
    assert found("All is well.", line) == [2]
    assert found("All is well.", line, markdown=True) == [2]


@pytest.mark.parametrize(
    "line",
    [
        "It cannot be read.",
        "This is the end of the user's function.",
        "of Spark's shuffle",
        "Make a pass over the partition.",
        "There is no more input than that.",
        "## Who is the owner?",
        "A user who can write it is trusted.",
        "The rows come through the reader.",
        'REPORTS = "told-"',
    ],
)
def test_plain_sentences_pass(line):
    assert found(line) == []


def test_names_of_users_and_variables_pass_in_tests_only():
    lines = ['told = read("nobody")']
    assert found(*lines, in_tests=True) == []
    assert found(*lines) == [1]


def test_inline_code_and_switched_off_lines_of_a_page_pass():
    assert found("The name was `Conductor.hub`.", markdown=True) == []
    lines = ["<!-- words: off -->", "It can not.", "<!-- words: on -->", "It can not."]
    assert found(*lines, markdown=True) == [4]


def test_a_long_line_of_a_page_is_refused_but_not_in_tables_link_targets_and_shown_output():
    long = "word " * 30
    link = f"[page](docs/{'a' * LINE_MAX}.md)"
    assert found(long, markdown=True) == [1]
    assert found(f"| {long} |", link, "```text", long, "```", markdown=True) == []
    assert found("```", long, "```", markdown=True) == [2]
    assert found(long) == []  # ruff checks Python
